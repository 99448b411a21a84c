// SPDX-License-Identifier: Apache-2.0
/*
 * Build-time tool: checks a knowledge folder and makes the block that is linked into the program.
 *
 *   mkknowledge DIR OUT.bin OUT.S OUT.d   writes the block, an assembly file that includes it, and
 *                                         the list of files it was made from, for ninja
 *   mkknowledge --check DIR               only prints the problems, or what it holds when there is none
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

#include "diagnosis/scan.h"
#include "knowledge/blob.h"

static void exhausted(const char *what)
{
    fprintf(stderr, "mkknowledge: %s\n", what);
    exit(2);
}

static int fail(const char *text)
{
    fprintf(stderr, "mkknowledge: %s\n", text);
    return 1;
}

static int write_file(const char *path, struct str text)
{
    FILE *f = fopen(path, "wb");
    bool good = f != NULL && (text.n == 0 || fwrite(text.p, text.n, 1, f) == 1);
    if (f != NULL && fclose(f) != 0) {
        good = false;
    }
    if (!good) {
        fprintf(stderr, "mkknowledge: cannot write '%s'\n", path);
    }
    return good ? 0 : 1;
}

/* The folders themselves are listed too: their time changes when a file comes or goes. */
static void list_folder(struct arena *a, const char *dir, struct strbuf *out)
{
    const struct fs live = {.prefix = ""};
    const char *const *names;
    size_t count;
    struct err err;
    if (fs_list(&live, a, dir, &names, &count, &err) != ST_OK) {
        return;
    }
    strbuf_fmt(out, " \\\n %s", dir);
    for (size_t i = 0; i < count; i++) {
        const char *path = arena_fmt(a, "%s/%s", dir, names[i]);
        if (fs_is_dir(&live, a, path)) {
            list_folder(a, path, out);
        } else if (names[i][0] != '.') {
            strbuf_fmt(out, " \\\n %s", path);
        }
    }
}

static int write_outputs(struct arena *a, const struct knowledge *k, const char *dir,
                         char *const *out)
{
    struct strbuf assembly;
    strbuf_init(&assembly, a, 100000);
    strbuf_fmt(&assembly,
               "    .section .rodata\n    .balign 64\n    .global knowledge_block\n"
               "    .global knowledge_block_end\nknowledge_block:\n    .incbin \"%s\"\n"
               "knowledge_block_end:\n    .byte 0\n"
               "    .section .note.GNU-stack,\"\",%%progbits\n",
               out[0]);
    struct strbuf depends;
    strbuf_init(&depends, a, 1 << 20);
    strbuf_fmt(&depends, "%s %s:", out[0], out[1]);
    list_folder(a, dir, &depends);
    strbuf_addc(&depends, '\n');
    return write_file(out[0], knowledge_blob_write(a, k)) |
           write_file(out[1], strbuf_str(&assembly)) | write_file(out[2], strbuf_str(&depends));
}

/* The block an earlier build made, to take its databases from; NULL when there is none. */
static const struct knowledge *earlier_block(struct arena *a, const char *path)
{
    const struct fs live = {.prefix = ""};
    struct str text;
    const struct knowledge *k;
    struct err err;
    if (fs_read(&live, a, path, (size_t)512 << 20, &text, &err) != ST_OK ||
        knowledge_blob_read(a, text, NULL, &k, &err) != ST_OK) {
        return NULL;
    }
    return k;
}

/* The scanner's databases, so that a start does not compile hundreds of expressions. Making them
 * takes seconds, so those of an earlier build are kept while the patterns are the same. */
static enum status compile_patterns(struct arena *a, struct knowledge *k, const char *earlier_path,
                                    struct err *err)
{
    const struct knowledge *earlier = earlier_block(a, earlier_path);
    for (int i = 0; i < SCAN_PLATFORM_COUNT; i++) {
        if (earlier != NULL &&
            scan_is_for(earlier->scanner_db[i].bytes, earlier->scanner_db[i].size, k->patterns,
                        k->patterns_count)) {
            k->scanner_db[i] = earlier->scanner_db[i];
            continue;
        }
        TRY(scan_compile(a, k->patterns, k->patterns_count, (enum scan_platform)i,
                         &k->scanner_db[i].bytes, &k->scanner_db[i].size, err));
    }
    return ST_OK;
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    if (!check && argc != 5) {
        return fail("usage: mkknowledge DIR OUT.bin OUT.S OUT.d | mkknowledge --check DIR");
    }
    arena_on_exhausted(exhausted);
    struct arena *a = arena_new(0);
    const char *dir = argv[check ? 2 : 1];
    const struct knowledge *k;
    struct text_list problems = {0};
    struct err err;
    if (knowledge_check_dir(a, dir, &k, &problems, &err) != ST_OK) {
        return fail(err.text);
    }
    for (size_t i = 0; i < problems.count; i++) {
        fprintf(stderr, "%s/%s\n", dir, problems.items[i]);
    }
    if (problems.count != 0) {
        return 1;
    }
    struct knowledge whole = *k;
    if (!check && compile_patterns(a, &whole, argv[2], &err) != ST_OK) {
        return fail(err.text);
    }
    int status = check ? 0 : write_outputs(a, &whole, dir, argv + 2);
    if (check) {
        printf("%zu patterns, %zu causes, %zu rules, %zu switches, %zu fact keys, %zu classes, %zu "
               "translated texts\n",
               k->patterns_count, k->causes_count, k->rules_count, k->switches_count,
               k->fact_keys_count, k->taxons_count, k->translations_count);
    }
    arena_free(a);
    return status;
}
