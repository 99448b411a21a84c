// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <sys/stat.h>

#include "base/input.h"
#include "base/input_list.h"
#include "base/str.h"

#include "temp_root.h"
#include "unit.h"

static struct arena *arena;
static const char *dir;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    temp_root_make();
    dir = temp_root;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    temp_root_remove();
    return 0;
}

static const char *put(const char *name, const void *bytes, size_t n)
{
    const char *path = arena_fmt(arena, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

/* All of an input, read in pieces of `piece` bytes. */
static struct str read_all(const char *path, size_t piece, const char **ret_note)
{
    struct err err;
    struct input *in;
    assert_int_equal(input_open(arena, path, NULL, &in, &err), ST_OK);
    struct strbuf b;
    strbuf_init(&b, arena, 64u << 20);
    char *buffer = arena_alloc(arena, piece);
    for (;;) {
        size_t n;
        assert_int_equal(input_read(in, buffer, piece, &n, &err), ST_OK);
        if (n == 0) {
            break;
        }
        strbuf_add(&b, (struct str){.p = buffer, .n = n});
    }
    if (ret_note != NULL) {
        *ret_note = input_note(in);
    }
    input_close(in);
    return strbuf_str(&b);
}

static struct str gzip_of(const char *text, size_t n)
{
    struct str out = {.p = arena_alloc(arena, n + 1000)};
    z_stream z = {.next_in = (Bytef *)text,
                  .avail_in = (uInt)n,
                  .next_out = (Bytef *)out.p,
                  .avail_out = (uInt)n + 1000};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.n = z.total_out;
    deflateEnd(&z);
    return out;
}

static struct str zstd_of(const char *text, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    struct str out = {.p = arena_alloc(arena, room)};
    out.n = ZSTD_compress((void *)out.p, room, text, n, 3);
    assert_false(ZSTD_isError(out.n));
    return out;
}

static char *noise(size_t n)
{
    char *p = arena_alloc(arena, n + 1);
    unsigned seed = 5;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        p[i] = (char)('a' + (seed >> 24) % 26);
    }
    return p;
}

static struct str joined(struct str a, struct str b)
{
    char *p = arena_alloc(arena, a.n + b.n + 1);
    memcpy(p, a.p, a.n);
    memcpy(p + a.n, b.p, b.n);
    return (struct str){.p = p, .n = a.n + b.n};
}

static void packed_files_are_told_by_their_bytes(void **state)
{
    (void)state;
    const char *text = noise(400000);
    struct str gz = gzip_of(text, 400000);
    struct str zst = zstd_of(text, 400000);
    const char *paths[] = {put("plain.gz", text, 400000), put("a.txt", gz.p, gz.n),
                           put("b.log", zst.p, zst.n)};
    for (size_t i = 0; i < 3; i++) {
        for (size_t piece = 8; piece < 1 << 20; piece *= 37) {
            struct str all = read_all(paths[i], piece, NULL);
            assert_int_equal(all.n, 400000);
            assert_memory_equal(all.p, text, all.n);
        }
    }
}

static void members_and_frames_in_a_row_are_all_read(void **state)
{
    (void)state;
    struct str gz = joined(gzip_of("one\n", 4), gzip_of("two\n", 4));
    struct str zst = joined(zstd_of("one\n", 4), zstd_of("two\n", 4));
    assert_string_equal(read_all(put("m", gz.p, gz.n), 100, NULL).p, "one\ntwo\n");
    assert_string_equal(read_all(put("f", zst.p, zst.n), 100, NULL).p, "one\ntwo\n");
    struct str padded = joined(gz, (struct str){.p = "\0\0\0\0", .n = 4});
    const char *note;
    assert_string_equal(read_all(put("p", padded.p, padded.n), 100, &note).p, "one\ntwo\n");
    assert_null(note);
}

static void cut_stream_gives_what_came_before_and_a_note(void **state)
{
    (void)state;
    const char *text = noise(1000000);
    const char *note;
    struct str gz = gzip_of(text, 1000000);
    struct str got = read_all(put("cut", gz.p, gz.n / 2), 4096, &note);
    assert_true(got.n > 300000 && got.n < 700000);
    assert_memory_equal(got.p, text, got.n);
    assert_non_null(strstr(note, "gzip data is cut off"));
    struct str zst = zstd_of(text, 1000000);
    got = read_all(put("cut2", zst.p, zst.n / 2), 4096, &note);
    assert_true(got.n > 100000);
    assert_memory_equal(got.p, text, got.n);
    assert_non_null(strstr(note, "zstd data is cut off"));
}

static void damaged_stream_ends_with_a_note(void **state)
{
    (void)state;
    const char *text = noise(300000);
    const char *note;
    struct str gz = gzip_of(text, 300000);
    memset((char *)gz.p + gz.n / 2, 0xff, 100);
    (void)read_all(put("bad", gz.p, gz.n), 4096, &note);
    assert_non_null(strstr(note, "damaged"));
    (void)read_all(put("bad2", "\x28\xb5\x2f\xfdxxxxxxxxxxxxxxx", 19), 4096, &note);
    assert_non_null(strstr(note, "damaged"));
}

static void utf16_becomes_utf8(void **state)
{
    (void)state;
    static const char le[] = "\xff\xfe"
                             "A\0\xe9\0\xac\x20\x3d\xd8\x00\xde\x00\xdcZ\0";
    for (size_t piece = 8; piece < 100; piece += 45) {
        assert_string_equal(read_all(put("le", le, sizeof le - 1), piece, NULL).p,
                            "A\u00e9\u20ac\U0001F600\uFFFDZ");
    }
    static const char be[] = "\xfe\xff\0A\0\n";
    assert_string_equal(read_all(put("be", be, sizeof be - 1), 50, NULL).p, "A\n");
    assert_string_equal(read_all(put("mark", "\xef\xbb\xbfx", 4), 50, NULL).p, "x");
    assert_string_equal(read_all(put("one", "x", 1), 50, NULL).p, "x");
    assert_string_equal(read_all(put("none", "", 0), 50, NULL).p, "");
}

static void *write_later(void *path)
{
    int fd = open(path, O_WRONLY);
    usleep(20000);
    ssize_t n = write(fd, "hello ", 6);
    usleep(20000);
    n += write(fd, "fifo\n", 5);
    close(fd);
    return n == 11 ? path : NULL;
}

static void fifo_waits_for_its_writer(void **state)
{
    (void)state;
    const char *path = arena_fmt(arena, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_later, (void *)path), 0);
    assert_string_equal(read_all(path, 100, NULL).p, "hello fifo\n");
    pthread_join(writer, NULL);
}

static void stop_ends_a_wait(void **state)
{
    (void)state;
    const char *path = arena_fmt(arena, "%s/fifo2", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    volatile int stop = 1;
    struct input *in;
    struct err err;
    char buffer[16];
    size_t n;
    assert_int_equal(input_open(arena, path, &stop, &in, &err), ST_OK);
    assert_int_equal(input_read(in, buffer, sizeof buffer, &n, &err), ST_OK);
    assert_int_equal(n, 0);
    input_close(in);
}

static void directory_and_missing_file_are_told_apart(void **state)
{
    (void)state;
    struct input *in;
    struct err err;
    assert_int_equal(input_open(arena, dir, NULL, &in, &err), ST_FORMAT);
    assert_int_equal(input_open(arena, "/nonexistent/x.log", NULL, &in, &err), ST_ABSENT);
}

static void directory_loop_ends_and_files_come_sorted_once(void **state)
{
    (void)state;
    const char *root = arena_fmt(arena, "%s/runs", dir);
    mkdir(root, 0700);
    mkdir(arena_fmt(arena, "%s/attempt_0", root), 0700);
    mkdir(arena_fmt(arena, "%s/attempt_0/3", root), 0700);
    put("runs/attempt_0/3/stdout.log", "x\n", 2);
    put("runs/attempt_0/3/stderr.log", "x\n", 2);
    put("runs/rank_11.log", "x\n", 2);
    put("runs/model.safetensors", "x\n", 2);
    assert_int_equal(symlink("..", arena_fmt(arena, "%s/attempt_0/up", root)), 0);
    assert_int_equal(symlink("loop", arena_fmt(arena, "%s/loop", root)), 0);
    assert_int_equal(symlink("rank_11.log", arena_fmt(arena, "%s/same.log", root)), 0);
    assert_int_equal(mkfifo(arena_fmt(arena, "%s/pipe.log", root), 0600), 0);
    struct input_list list = {0};
    struct text_list notes = {0};
    struct err err;
    assert_int_equal(input_list_add(arena, root, &list, &notes, &err), ST_OK);
    assert_int_equal(list.count, 3);
    assert_non_null(strstr(list.items[0].path, "3/stderr.log"));
    assert_int_equal(list.items[0].rank, 3);
    assert_int_equal(list.items[2].rank, 11);
    assert_int_equal(notes.count, 0);
    mkdir(arena_fmt(arena, "%s/empty", dir), 0700);
    assert_int_equal(input_list_add(arena, arena_fmt(arena, "%s/empty", dir), &list, &notes, &err),
                     ST_ABSENT);
}

static void ranks_are_read_from_names(void **state)
{
    (void)state;
    assert_int_equal(input_list_rank("a/rank_3.log"), 3);
    assert_int_equal(input_list_rank("a/worker-rank-12-of-16.out"), 12);
    assert_int_equal(input_list_rank("run/attempt_0/7/stderr.log"), 7);
    assert_int_equal(input_list_rank("rank5/train.log"), 5);
    assert_int_equal(input_list_rank("frank/train.log"), -1);
    assert_int_equal(input_list_rank("2024/train.log"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_are_told_by_their_bytes),
        cmocka_unit_test(members_and_frames_in_a_row_are_all_read),
        cmocka_unit_test(cut_stream_gives_what_came_before_and_a_note),
        cmocka_unit_test(damaged_stream_ends_with_a_note),
        cmocka_unit_test(utf16_becomes_utf8),
        cmocka_unit_test(fifo_waits_for_its_writer),
        cmocka_unit_test(stop_ends_a_wait),
        cmocka_unit_test(directory_and_missing_file_are_told_apart),
        cmocka_unit_test(directory_loop_ends_and_files_come_sorted_once),
        cmocka_unit_test(ranks_are_read_from_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
