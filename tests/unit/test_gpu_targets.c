// SPDX-License-Identifier: Apache-2.0
/* GPU code in every container it comes in, made here byte by byte; see also gpu_objects.sh, which
 * asks clang for real ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "facts/amdgpu_target.h"
#include "facts/ccob.h"
#include "facts/gpu_targets.h"
#include "facts/msgpack.h"
#include "unit.h"

static const struct fs live = {.prefix = ""};

static struct arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static struct strbuf buffer(void)
{
    struct strbuf b;
    strbuf_init(&b, arena, 64u << 20);
    return b;
}

static void add_le(struct strbuf *b, uint64_t v, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        strbuf_addc(b, (char)(v >> (8 * i)));
    }
}

static void pad_to(struct strbuf *b, size_t n)
{
    while (b->n < n) {
        strbuf_addc(b, '\0');
    }
}

/* A bundle with a host entry of no size and `size` bytes of code for each target. */
static struct str bundle(const char *const *ids, size_t count, size_t size)
{
    struct strbuf b = buffer();
    strbuf_addz(&b, "__CLANG_OFFLOAD_BUNDLE__");
    add_le(&b, count, 8);
    for (size_t i = 0; i < count; i++) {
        add_le(&b, 4096 + i * size, 8);
        add_le(&b, strncmp(ids[i], "host", 4) == 0 ? 0 : size, 8);
        add_le(&b, strlen(ids[i]), 8);
        strbuf_addz(&b, ids[i]);
    }
    pad_to(&b, 4096 + count * size);
    return strbuf_str(&b);
}

static const char *const two_ids[] = {"host-x86_64-unknown-linux-gnu-",
                                      "hipv4-amdgcn-amd-amdhsa--gfx1201",
                                      "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"};

static struct str compress_bundle(struct str plain, unsigned version, unsigned method)
{
    size_t room = ZSTD_compressBound(plain.n) + compressBound(plain.n);
    char *out = arena_alloc(arena, room);
    size_t n;
    if (method == CCOB_ZSTD) {
        n = ZSTD_compress(out, room, plain.p, plain.n, 3);
    } else {
        uLongf made = room;
        assert_int_equal(compress((Bytef *)out, &made, (const Bytef *)plain.p, plain.n), Z_OK);
        n = made;
    }
    struct strbuf b = buffer();
    strbuf_addz(&b, "CCOB");
    add_le(&b, version, 2);
    add_le(&b, method, 2);
    unsigned width = version == 3 ? 8 : 4;
    if (version != 1) {
        add_le(&b, 16 + 2 * width + n, width);
    }
    add_le(&b, plain.n, width);
    add_le(&b, 0x1122334455667788, 8);
    strbuf_add(&b, (struct str){.p = out, .n = n});
    return strbuf_str(&b);
}

static struct gpu_targets targets_of(struct str bytes)
{
    struct gpu_targets t;
    gpu_targets_of_bytes(&live, arena, "made up", bytes, &t);
    return t;
}

static void is_target(const struct gpu_targets *t, size_t i, const char *name, unsigned form,
                      uint64_t count)
{
    assert_true(i < t->count);
    assert_string_equal(t->items[i].name, name);
    assert_int_equal(t->items[i].forms, form);
    assert_int_equal(t->items[i].count, count);
}

static void plain_bundle_lists_device_entries_only(void **state)
{
    (void)state;
    struct gpu_targets t = targets_of(bundle(two_ids, 3, 100));
    assert_int_equal(t.state, GPU_TARGETS_KNOWN);
    assert_int_equal(t.count, 2);
    is_target(&t, 0, "gfx90a:sramecc+:xnack-", GPU_CODE_BUNDLE, 1);
    is_target(&t, 1, "gfx1201", GPU_CODE_BUNDLE, 1);
}

static void bundles_behind_the_first_are_not_missed(void **state)
{
    (void)state;
    const char *const other[] = {"hip-amdgcn-amd-amdhsa--gfx1100",
                                 "hip-amdgcn-amd-amdhsa--gfx1201"};
    struct strbuf b = buffer();
    strbuf_add(&b, bundle(two_ids, 3, 100));
    pad_to(&b, (b.n + 4095) / 4096 * 4096);
    strbuf_add(&b, compress_bundle(bundle(other, 2, 5000), 2, CCOB_ZSTD));
    pad_to(&b, (b.n + 4095) / 4096 * 4096);
    strbuf_add(&b, bundle(other, 1, 40));
    struct gpu_targets t = targets_of(strbuf_str(&b));
    assert_int_equal(t.containers, 3);
    assert_int_equal(t.unreadable, 0);
    assert_int_equal(t.count, 3);
    is_target(&t, 1, "gfx1100", GPU_CODE_COMPRESSED | GPU_CODE_BUNDLE, 2);
    is_target(&t, 2, "gfx1201", GPU_CODE_COMPRESSED | GPU_CODE_BUNDLE, 2);
}

static void every_compressed_version_and_method_is_read(void **state)
{
    (void)state;
    struct str plain = bundle(two_ids, 3, 300000);
    for (unsigned version = 1; version <= 3; version++) {
        for (unsigned method = 0; method <= 1; method++) {
            struct strbuf b = buffer();
            strbuf_add(&b, compress_bundle(plain, version, method));
            pad_to(&b, (b.n + 4095) / 4096 * 4096);
            strbuf_add(&b, compress_bundle(plain, version, method));
            struct gpu_targets t = targets_of(strbuf_str(&b));
            assert_int_equal(t.state, GPU_TARGETS_KNOWN);
            assert_int_equal(t.containers, 2);
            assert_int_equal(t.count, 2);
            is_target(&t, 1, "gfx1201", GPU_CODE_COMPRESSED, 2);
        }
    }
}

static void unreadable_is_not_none(void **state)
{
    (void)state;
    struct str good = compress_bundle(bundle(two_ids, 3, 1000), 2, CCOB_ZSTD);
    char *bad = arena_copy(arena, good.p, good.n);
    memset(bad + 24, 0xff, good.n - 24);
    struct gpu_targets t = targets_of((struct str){bad, good.n});
    assert_int_equal(t.state, GPU_TARGETS_UNREADABLE);
    assert_int_equal(t.unreadable, 1);
    assert_non_null(t.problem);
    bad[4] = 9; /* a version of the future */
    t = targets_of((struct str){bad, good.n});
    assert_int_equal(t.state, GPU_TARGETS_UNREADABLE);
    assert_non_null(strstr(t.problem, "version 9"));
    t = targets_of(STR("just text"));
    assert_int_equal(t.state, GPU_TARGETS_NONE);
    t = targets_of(STR(""));
    assert_int_equal(t.state, GPU_TARGETS_NONE);
}

/* A claim of 4 EiB must cost neither memory nor time. */
static void claimed_sizes_are_not_believed(void **state)
{
    (void)state;
    struct str good = compress_bundle(bundle(two_ids, 3, 1000), 3, CCOB_ZSTD);
    char *liar = arena_copy(arena, good.p, good.n);
    memset(liar + 16, 0x3f, 8);
    struct gpu_targets t = targets_of((struct str){liar, good.n});
    assert_int_equal(t.state, GPU_TARGETS_UNREADABLE);
    struct ccob c;
    struct str plain;
    assert_int_equal(ccob_parse((struct str){liar, good.n}, &c, NULL), ST_OK);
    assert_int_equal(ccob_inflate(arena, (struct str){liar, good.n}, &c, UINT64_MAX, &plain, NULL),
                     ST_LIMIT);
}

static void every_prefix_is_survived(void **state)
{
    (void)state;
    struct str whole = bundle(two_ids, 3, 64);
    struct str packed = compress_bundle(whole, 3, CCOB_ZLIB);
    for (size_t n = 0; n < whole.n; n++) {
        struct arena_mark mark = arena_mark(arena);
        char *copy = arena_copy(arena, whole.p, n);
        (void)targets_of((struct str){copy, n});
        arena_rewind(arena, mark);
    }
    for (size_t n = 0; n < packed.n; n++) {
        struct arena_mark mark = arena_mark(arena);
        char *copy = arena_copy(arena, packed.p, n);
        struct gpu_targets t = targets_of((struct str){copy, n});
        assert_int_equal(t.state, n < 4 ? GPU_TARGETS_NONE : GPU_TARGETS_UNREADABLE);
        arena_rewind(arena, mark);
    }
}

/* An ELF file with a section table and nothing else: sections and their contents as given. */
static struct str elf_with(const char *const *names, const struct str *contents, size_t count,
                           unsigned machine, uint32_t flags)
{
    struct strbuf b = buffer();
    struct strbuf text = buffer();
    strbuf_addc(&text, '\0');
    strbuf_add(&b, (struct str){"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0", 16});
    b.p[7] = machine == 224 ? 64 : 0;
    b.p[8] = machine == 224 ? 3 : 0;
    size_t body = 64;
    for (size_t i = 0; i < count; i++) {
        body += contents[i].n;
    }
    size_t name_bytes = 1;
    for (size_t i = 0; i < count; i++) {
        name_bytes += strlen(names[i]) + 1;
    }
    add_le(&b, 3, 2);
    add_le(&b, machine, 2);
    add_le(&b, 1, 4);
    add_le(&b, 0, 8);
    add_le(&b, 0, 8);
    add_le(&b, body + name_bytes, 8);
    add_le(&b, flags, 4);
    add_le(&b, 64, 2);
    add_le(&b, 56, 2);
    add_le(&b, 0, 2);
    add_le(&b, 64, 2);
    add_le(&b, count + 2, 2);
    add_le(&b, count + 1, 2);
    for (size_t i = 0; i < count; i++) {
        strbuf_add(&b, contents[i]);
    }
    for (size_t i = 0; i < count; i++) {
        strbuf_addz(&text, names[i]);
        strbuf_addc(&text, '\0');
    }
    strbuf_add(&b, strbuf_str(&text));
    pad_to(&b, b.n + 64); /* the null section */
    size_t at = 64;
    size_t name_at = 1;
    for (size_t i = 0; i <= count; i++) {
        size_t n = i < count ? contents[i].n : name_bytes;
        add_le(&b, i < count ? name_at : 0, 4);
        add_le(&b, 1, 4);
        add_le(&b, 2, 8);
        add_le(&b, 0, 8);
        add_le(&b, at, 8);
        add_le(&b, n, 8);
        pad_to(&b, b.n + 24);
        at += n;
        name_at += i < count ? strlen(names[i]) + 1 : 0;
    }
    return strbuf_str(&b);
}

static void flags_name_processor_and_features(void **state)
{
    (void)state;
    struct gpu_targets t = targets_of(elf_with(NULL, NULL, 0, 224, 0x54c));
    is_target(&t, 0, "gfx942", GPU_CODE_OBJECT, 1);
    t = targets_of(elf_with(NULL, NULL, 0, 224, 0xa3f));
    is_target(&t, 0, "gfx90a:sramecc-:xnack-", GPU_CODE_OBJECT, 1);
    t = targets_of(elf_with(NULL, NULL, 0, 224, 0x1000059));
    is_target(&t, 0, "gfx12-generic", GPU_CODE_OBJECT, 1);
    t = targets_of(elf_with(NULL, NULL, 0, 224, 0xfe));
    assert_int_equal(t.state, GPU_TARGETS_UNREADABLE);
    assert_non_null(strstr(t.problem, "0xfe"));
    /* Code object V3 has one bit a feature, and none means off. */
    assert_string_equal(amdgpu_target_of_flags(arena, 0x30, 64, 1), "gfx908:sramecc-:xnack-");
    assert_string_equal(amdgpu_target_of_flags(arena, 0x330, 64, 1), "gfx908:sramecc+:xnack+");
    assert_string_equal(amdgpu_target_of_flags(arena, 0x36, 64, 2), "gfx1030");
}

static void fat_library_is_read_by_section(void **state)
{
    (void)state;
    const char *const names[] = {".rodata", ".hip_fatbin"};
    struct str contents[] = {STR("text"), bundle(two_ids, 3, 10)};
    struct str file = elf_with(names, contents, 2, 62, 0);
    struct gpu_targets t = targets_of(file);
    assert_int_equal(t.count, 2);
    /* Cut off: the section table is gone, so nothing can be said; never a crash. */
    for (size_t n = 0; n < file.n; n += 7) {
        (void)targets_of((struct str){arena_copy(arena, file.p, n), n});
    }
}

static void pack_text(struct strbuf *b, const char *s)
{
    strbuf_addc(b, (char)0xd9);
    add_le(b, strlen(s), 1);
    strbuf_addz(b, s);
}

static struct str kpack_archive(const char *const *keys, const char *target, size_t count)
{
    struct strbuf b = buffer();
    strbuf_addz(&b, "KPAK");
    add_le(&b, 1, 4);
    add_le(&b, 64, 8);
    pad_to(&b, 64);
    strbuf_addc(&b, (char)0x82);
    pack_text(&b, "gfx_arches");
    strbuf_addc(&b, (char)0x91);
    pack_text(&b, target);
    pack_text(&b, "toc");
    strbuf_addc(&b, (char)(0x80 + count));
    for (size_t i = 0; i < count; i++) {
        pack_text(&b, keys[i]);
        strbuf_addc(&b, (char)0x81);
        pack_text(&b, target);
        strbuf_addc(&b, (char)0x83);
        pack_text(&b, "type");
        pack_text(&b, "hsaco");
        pack_text(&b, "ordinal");
        strbuf_addc(&b, 0);
        pack_text(&b, "original_size");
        strbuf_addc(&b, (char)0xcd);
        strbuf_addc(&b, 0x12);
        strbuf_addc(&b, 0x34);
    }
    return strbuf_str(&b);
}

static struct str kpack_library(const char *search_path)
{
    struct strbuf ref = buffer();
    strbuf_addc(&ref, (char)0x82);
    pack_text(&ref, "kpack_search_paths");
    strbuf_addc(&ref, (char)0x91);
    pack_text(&ref, search_path);
    pack_text(&ref, "kernel_name");
    pack_text(&ref, "lib/librand.so");
    struct strbuf wrapper = buffer();
    add_le(&wrapper, 0x4B504948, 4);
    add_le(&wrapper, 1, 4);
    pad_to(&wrapper, 24);
    const char *const names[] = {".hipFatBinSegment", ".rocm_kpack_ref"};
    struct str contents[] = {strbuf_str(&wrapper), strbuf_str(&ref)};
    return elf_with(names, contents, 2, 62, 0);
}

static void write_file(const char *path, struct str bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
}

/* A library whose code is in archives beside it has code, and only for the archives that are there
 * and hold it. */
static void kpack_archives_are_followed(void **state)
{
    (void)state;
    char root[] = "/tmp/assay_kpack_XXXXXX";
    assert_non_null(mkdtemp(root));
    const struct fs fs = {.prefix = root};
    assert_int_equal(mkdir(arena_fmt(arena, "%s/lib", root), 0755), 0);
    assert_int_equal(mkdir(arena_fmt(arena, "%s/.kpack", root), 0755), 0);
    const char *library = arena_fmt(arena, "%s/lib/librand.so", root);
    const char *first = arena_fmt(arena, "%s/.kpack/rand_gfx1201.kpack", root);
    const char *second = arena_fmt(arena, "%s/.kpack/rand_gfx942.kpack", root);
    write_file(library, kpack_library("../.kpack/rand_@GFXARCH@.kpack"));
    struct gpu_targets t;
    assert_int_equal(gpu_targets_of_file(&fs, arena, "/lib/librand.so", &t, NULL), ST_OK);
    assert_int_equal(t.state, GPU_TARGETS_ELSEWHERE);
    assert_string_equal(t.search_paths[0], "../.kpack/rand_@GFXARCH@.kpack");
    const char *const own[] = {"lib/librand.so#0", "lib/librand.so#1"};
    const char *const other[] = {"lib/libother.so#0"};
    write_file(first, kpack_archive(own, "gfx1201", 2));
    write_file(second, kpack_archive(other, "gfx942", 1));
    assert_int_equal(gpu_targets_of_file(&fs, arena, "/lib/librand.so", &t, NULL), ST_OK);
    assert_int_equal(t.state, GPU_TARGETS_KNOWN);
    assert_int_equal(t.archive_count, 2);
    assert_int_equal(t.count, 1);
    is_target(&t, 0, "gfx1201", GPU_CODE_KPACK, 2);
    assert_int_equal(t.items[0].bytes, 2 * 0x1234);
    assert_int_equal(gpu_targets_of_file(&fs, arena, "/.kpack/rand_gfx942.kpack", &t, NULL), ST_OK);
    is_target(&t, 0, "gfx942", GPU_CODE_KPACK, 1);
    unlink(library);
    unlink(first);
    unlink(second);
    rmdir(arena_fmt(arena, "%s/lib", root));
    rmdir(arena_fmt(arena, "%s/.kpack", root));
    rmdir(root);
}

static void damaged_kpack_is_unreadable(void **state)
{
    (void)state;
    const char *const own[] = {"lib/librand.so#0"};
    struct str good = kpack_archive(own, "gfx1201", 1);
    for (size_t n = 4; n < good.n; n++) {
        struct gpu_targets t = targets_of((struct str){arena_copy(arena, good.p, n), n});
        assert_true(t.unreadable == 1);
    }
}

static void msgpack_refuses_impossible_counts(void **state)
{
    (void)state;
    struct msgpack m = {.data = {"\xdf\xff\xff\xff\xff", 5}};
    struct msgpack_item item;
    assert_false(msgpack_next(&m, &item));
    m = (struct msgpack){.data = {"\xdd\xff\xff\xff\xff\x01", 6}};
    assert_false(msgpack_skip(&m));
    /* 100 lists in one another need no stack. */
    struct strbuf deep = buffer();
    for (int i = 0; i < 100000; i++) {
        strbuf_addc(&deep, (char)0x91);
    }
    strbuf_addc(&deep, (char)0xc0);
    m = (struct msgpack){.data = strbuf_str(&deep)};
    assert_true(msgpack_skip(&m));
    assert_int_equal(m.at, deep.n);
    m = (struct msgpack){.data = {"\xd1\xff\xfe\xd0\x05\xcb\0\0\0\0\0\0\0\0", 14}};
    assert_true(msgpack_next(&m, &item));
    assert_int_equal(item.kind, MSGPACK_NEGATIVE);
    assert_int_equal((int64_t)item.number, -2);
    assert_true(msgpack_next(&m, &item));
    assert_int_equal(item.kind, MSGPACK_UNSIGNED);
    assert_true(msgpack_next(&m, &item));
    assert_int_equal(item.kind, MSGPACK_REAL);
    assert_false(msgpack_next(&m, &item));
}

static struct str nvidia_member(unsigned kind, unsigned capability, uint64_t flags)
{
    struct strbuf b = buffer();
    add_le(&b, kind, 2);
    add_le(&b, 0x101, 2);
    add_le(&b, 64, 4);
    add_le(&b, 32, 8);
    pad_to(&b, 28);
    add_le(&b, capability, 4);
    pad_to(&b, 40);
    add_le(&b, flags, 8);
    pad_to(&b, 96);
    return strbuf_str(&b);
}

static struct str nvidia_fatbin(const struct str *members, size_t count)
{
    struct strbuf b = buffer();
    add_le(&b, 0xba55ed50, 4);
    add_le(&b, 1, 2);
    add_le(&b, 16, 2);
    add_le(&b, count * 96, 8);
    for (size_t i = 0; i < count; i++) {
        strbuf_add(&b, members[i]);
    }
    return strbuf_str(&b);
}

static void nvidia_fat_binaries_tell_machine_code_from_ptx(void **state)
{
    (void)state;
    struct str members[] = {nvidia_member(2, 80, 0x11), nvidia_member(2, 90, 0x100011),
                            nvidia_member(1, 90, 0x8011), nvidia_member(2, 100, 0x1200011)};
    struct strbuf b = buffer();
    strbuf_add(&b, nvidia_fatbin(members, 4));
    strbuf_add(&b, nvidia_fatbin(members, 1));
    const char *const names[] = {".nv_fatbin"};
    struct str contents[] = {strbuf_str(&b)};
    struct gpu_targets t = targets_of(elf_with(names, contents, 1, 62, 0));
    assert_int_equal(t.containers, 2);
    is_target(&t, 0, "sm_80", GPU_CODE_CUBIN, 2);
    is_target(&t, 1, "sm_90a", GPU_CODE_CUBIN, 1);
    is_target(&t, 2, "sm_100f", GPU_CODE_CUBIN, 1);
    is_target(&t, 3, "compute_90", GPU_CODE_PTX, 1);
    assert_string_equal(gpu_targets_for(&t, "sm_90")->name, "sm_90a");
    assert_string_equal(gpu_targets_for(&t, "sm_89")->name, "sm_80");
    assert_string_equal(gpu_targets_for(&t, "sm_120")->name, "compute_90");
    assert_null(gpu_targets_for(&t, "sm_75"));
}

static void generic_code_covers_its_family(void **state)
{
    (void)state;
    assert_true(amdgpu_target_covers("gfx12-generic", "gfx1201"));
    assert_true(amdgpu_target_covers("gfx9-4-generic", "gfx942:sramecc+:xnack-"));
    assert_false(amdgpu_target_covers("gfx12-generic", "gfx1250"));
    assert_false(amdgpu_target_covers("gfx11-generic", "gfx1201"));
    assert_false(amdgpu_target_covers("gfx1200", "gfx1201"));
    assert_true(amdgpu_target_covers("gfx90a", "gfx90a:sramecc+:xnack-"));
    assert_true(amdgpu_target_covers("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"));
    assert_false(amdgpu_target_covers("gfx90a:xnack+", "gfx90a:sramecc+:xnack-"));
    assert_true(amdgpu_target_covers("gfx90a:xnack+", "gfx90a"));
    assert_true(amdgpu_target_covers("amdgcnspirv", "gfx1151"));
    assert_false(amdgpu_target_covers("amdgcnspirv", "sm_90"));
    assert_string_equal(amdgpu_target_generic("gfx1036"), "gfx10-3-generic");
    assert_null(amdgpu_target_generic("gfx90a:xnack-"));
}

static void targets_in_file_names(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"TensileLibrary_lazy_gfx1201.dat", "gfx1201"},
        {"Kernels.so-000-gfx90a-xnack-.hsaco", "gfx90a:xnack-"},
        {"Kernels.so-000-gfx1030.hsaco", "gfx1030"},
        {"TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx90a.co", "gfx90a"},
        {"extop_gfx942.co", "gfx942"},
        {"rand_gfx12-generic.kpack", "gfx12-generic"},
        {"blas_gfx1999.dat", "gfx1999"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        size_t from = 0;
        assert_string_equal(amdgpu_target_in_name(arena, str_of(pairs[i][0]), &from), pairs[i][1]);
    }
    size_t from = 0;
    assert_null(amdgpu_target_in_name(arena, STR("TensileLibrary_gfx.dat"), &from));
    assert_int_equal(amdgpu_target_prefix(STR("gfx90a68.kdb")), 6);
    assert_int_equal(amdgpu_target_prefix(STR("gfx90878.kdb")), 6);
    assert_int_equal(amdgpu_target_prefix(STR("gfx1030_36.kdb")), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_bundle_lists_device_entries_only),
        cmocka_unit_test(bundles_behind_the_first_are_not_missed),
        cmocka_unit_test(every_compressed_version_and_method_is_read),
        cmocka_unit_test(unreadable_is_not_none),
        cmocka_unit_test(claimed_sizes_are_not_believed),
        cmocka_unit_test(every_prefix_is_survived),
        cmocka_unit_test(flags_name_processor_and_features),
        cmocka_unit_test(fat_library_is_read_by_section),
        cmocka_unit_test(kpack_archives_are_followed),
        cmocka_unit_test(damaged_kpack_is_unreadable),
        cmocka_unit_test(msgpack_refuses_impossible_counts),
        cmocka_unit_test(nvidia_fat_binaries_tell_machine_code_from_ptx),
        cmocka_unit_test(generic_code_covers_its_family),
        cmocka_unit_test(targets_in_file_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
