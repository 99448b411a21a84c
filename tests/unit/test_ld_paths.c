// SPDX-License-Identifier: Apache-2.0
/* Searching libraries on a frozen machine. The rules of ld.so themselves are compared with the real
 * one in ld_paths.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts/ld_paths.h"
#include "unit.h"

static struct arena *arena;
static char root[64];
static struct fs fs;
static struct str library; /* needs libc.so.6 and libm.so.6; RUNPATH $ORIGIN/../near */

static int setup(void **state)
{
    (void)state;
    const struct fs live = {.prefix = ""};
    struct fs_map map;
    arena = arena_new(0);
    assert_int_equal(fs_map(&live, arena, SAMPLE_LIBRARY, &map, NULL), ST_OK);
    library = (struct str){.p = arena_copy(arena, map.p, map.n), .n = map.n};
    fs_unmap(&map);
    snprintf(root, sizeof root, "/tmp/assay_ld_XXXXXX");
    assert_non_null(mkdtemp(root));
    fs.prefix = root;
    return 0;
}

static void remove_tree(const char *path)
{
    const char *const *names;
    size_t count;
    const struct fs live = {.prefix = ""};
    if (unlink(path) == 0) {
        return;
    }
    if (fs_list(&live, arena, path, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            remove_tree(arena_fmt(arena, "%s/%s", path, names[i]));
        }
        rmdir(path);
    }
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(root);
    arena_free(arena);
    return 0;
}

static char *with_folders(const char *path)
{
    char *full = arena_fmt(arena, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    return full;
}

static void put(const char *path, struct str bytes)
{
    FILE *f = fopen(with_folders(path), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
}

static const struct ld_object *object_named(const struct ld *ld, const char *name)
{
    const struct ld_object *o = ld_find(ld, name);
    assert_non_null(o);
    return o;
}

static void without_a_cache_ld_so_conf_is_read(void **state)
{
    (void)state;
    put("/etc/ld.so.conf", STR("include /etc/ld.so.conf.d/*.conf\n# /comment\n"));
    put("/etc/ld.so.conf.d/a.conf", STR("/opt/maths/  # maths\n"));
    put("/etc/ld.so.conf.d/ignored.txt", STR("/opt/wrong\n"));
    put("/opt/maths/libm.so.6", library);
    put("/opt/wrong/libc.so.6", library);
    put("/usr/lib64/libc.so.6", library);
    put("/app/lib/libapp.so", library);
    struct ld *ld = ld_closure(&fs, arena, "/app/lib/libapp.so", (struct ld_options){0});
    const struct ld_object *m = object_named(ld, "libm.so.6");
    assert_int_equal(m->state, LD_LOADED);
    assert_string_equal(m->path, "/opt/maths/libm.so.6");
    assert_string_equal(m->found_by, "/etc/ld.so.conf");
    const struct ld_object *c = object_named(ld, "libc.so.6");
    assert_string_equal(c->path, "/usr/lib64/libc.so.6");
    assert_string_equal(c->found_by, "default directory");
    assert_true(ld_is_needed_by(ld, c, object_named(ld, "/app/lib/libapp.so")));
    ld_free(ld);
}

static void runpath_and_links_stay_inside_the_root(void **state)
{
    (void)state;
    put("/app/near/real/libm.so.6", library);
    assert_int_equal(symlink("/app/near/real/libm.so.6", with_folders("/app/near/libm.so.6")), 0);
    struct ld *ld = ld_closure(&fs, arena, "/app/lib/libapp.so", (struct ld_options){0});
    const struct ld_object *m = object_named(ld, "libm.so.6");
    assert_string_equal(m->path, "/app/lib/../near/libm.so.6");
    assert_string_equal(m->found_by, "RUNPATH of /app/lib/libapp.so");
    ld_free(ld);
}

static void missing_and_broken_are_told_apart(void **state)
{
    (void)state;
    put("/other/libapp.so", library);
    put("/text/libm.so.6",
        STR("<html>404 Not Found: this is what the proxy sent, long enough</html>"));
    struct ld *ld = ld_closure(&fs, arena, "/other/libapp.so",
                               (struct ld_options){.library_path = "/nowhere:/text"});
    const struct ld_object *m = object_named(ld, "libm.so.6");
    assert_int_equal(m->state, LD_BROKEN);
    assert_string_equal(m->path, "/text/libm.so.6");
    assert_string_equal(m->found_by, "LD_LIBRARY_PATH");
    assert_non_null(strstr(m->problem, "not an ELF file"));
    ld_free(ld);
    assert_int_equal(unlink(with_folders("/usr/lib64/libc.so.6")), 0);
    ld = ld_closure(&fs, arena, "/other/libapp.so", (struct ld_options){0});
    const struct ld_object *c = object_named(ld, "libc.so.6");
    assert_int_equal(c->state, LD_MISSING);
    assert_null(c->path);
    ld_free(ld);
    ld = ld_closure(&fs, arena, "/not/there", (struct ld_options){0});
    size_t count;
    const struct ld_object *const *objects = ld_objects(ld, &count);
    assert_int_equal(count, 1);
    assert_int_equal(objects[0]->state, LD_MISSING);
    ld_free(ld);
    ld_free(NULL);
}

static void preloads_come_before_needed_libraries(void **state)
{
    (void)state;
    put("/pre/libm.so.6", library);
    struct ld *ld = ld_closure(&fs, arena, "/app/lib/libapp.so",
                               (struct ld_options){.preload = "/pre/libm.so.6 /gone.so"});
    const struct ld_object *m = object_named(ld, "/pre/libm.so.6");
    assert_string_equal(m->found_by, "LD_PRELOAD or /etc/ld.so.preload");
    assert_int_equal(object_named(ld, "/gone.so")->state, LD_MISSING);
    ld_free(ld);
}

/* An object that was loaded serves whoever asks for its name later, whatever its own paths say. */
static void loaded_libraries_serve_later_ones(void **state)
{
    (void)state;
    put("/torch/libm.so.6", library);
    put("/ext/extension.so", library);
    struct ld *ld = ld_new(&fs, arena, (struct ld_options){.library_path = "/torch"});
    const struct ld_object *first = ld_load(ld, "/other/libapp.so", NULL);
    assert_int_equal(first->state, LD_LOADED);
    const struct ld_object *extension = ld_load(ld, "/ext/extension.so", first);
    assert_ptr_equal(extension, ld_load(ld, "/ext/extension.so", first));
    assert_string_equal(object_named(ld, "libm.so.6")->path, "/torch/libm.so.6");
    const char *path;
    const char *why;
    assert_int_equal(ld_resolve(ld, "libm.so.6", extension, &path, &why, NULL), ST_OK);
    assert_string_equal(path, "/torch/libm.so.6");
    assert_int_equal(ld_resolve(ld, "libnone.so", extension, &path, &why, NULL), ST_ABSENT);
    ld_free(ld);
}

/* PyTorch's second attempt: what its own search missed is opened by path. */
static void missing_library_loaded_by_path_is_missing_no_more(void **state)
{
    (void)state;
    put("/alone/libapp.so", library);
    put("/wheel/libsample_library.so.3", library);
    struct str needs = {.p = arena_copy(arena, library.p, library.n), .n = library.n};
    /* The same file, made to need the soname that it has itself. */
    char *at = memmem(needs.p, needs.n, "libm.so.6", 10);
    assert_non_null(at);
    memcpy(at, "libq.so.6", 9);
    put("/alone/libq_user.so", needs);
    struct ld *ld = ld_new(&fs, arena, (struct ld_options){0});
    (void)ld_load(ld, "/alone/libq_user.so", NULL);
    assert_int_equal(object_named(ld, "libq.so.6")->state, LD_MISSING);
    size_t before;
    (void)ld_objects(ld, &before);
    (void)ld_load(ld, "/alone/libapp.so", NULL);
    size_t count;
    const struct ld_object *const *objects = ld_objects(ld, &count);
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        missing += strcmp(objects[i]->name, "libq.so.6") == 0;
    }
    assert_int_equal(missing, 1);
    /* A library of that soname arrives. */
    char *soname = memmem(needs.p, needs.n, "libsample_library.so.3", 23);
    assert_non_null(soname);
    memcpy(soname, "libq.so.6", 10);
    memcpy(at, "libm.so.6", 9);
    put("/wheel/anything.so", needs);
    assert_int_equal(ld_load(ld, "/wheel/anything.so", NULL)->state, LD_LOADED);
    assert_int_equal(object_named(ld, "libq.so.6")->state, LD_LOADED);
    objects = ld_objects(ld, &count);
    for (size_t i = 0; i < count; i++) {
        assert_false(objects[i]->state == LD_MISSING && strcmp(objects[i]->name, "libq.so.6") == 0);
    }
    ld_free(ld);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_cache_ld_so_conf_is_read),
        cmocka_unit_test(runpath_and_links_stay_inside_the_root),
        cmocka_unit_test(missing_and_broken_are_told_apart),
        cmocka_unit_test(preloads_come_before_needed_libraries),
        cmocka_unit_test(loaded_libraries_serve_later_ones),
        cmocka_unit_test(missing_library_loaded_by_path_is_missing_no_more),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
