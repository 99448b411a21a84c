// SPDX-License-Identifier: Apache-2.0
/*
 * Layout, all little-endian. Fat binary: u32 magic 0xba55ed50, u16 version 1, u16 header size,
 * u64 size of the members. Member: u16 kind, u16 version, u32 header size, u64 size of its data,
 * ..., u32 compute capability at 28, u64 flags at 40. Data follows the header.
 */
#include "facts/nv_fatbin.h"

#include <inttypes.h>

#include "base/bytes.h"

#define FATBIN_MAGIC 0xba55ed50u

enum {
    FATBIN_HEADER = 16,
    MEMBER_HEADER = 48, /* the part that every version has */
    KIND_PTX = 1,
    KIND_CUBIN = 2,
    FLAG_ARCH_SPECIFIC = 0x100000,   /* sm_90a */
    FLAG_FAMILY_SPECIFIC = 0x200000, /* sm_100f */
    MAX_CAPABILITY = 999,
    CUBIN_ABI_7 = 7,
    CUBIN_FLAG_ACCELERATED = 0x800,
};

static bool is_fatbin(struct str s)
{
    return s.n >= FATBIN_HEADER && bytes_le32(s.p) == FATBIN_MAGIC;
}

static enum status read_member(struct str rest, struct gpu_code_sink *sink, uint64_t *ret_size,
                               struct err *err)
{
    struct str h;
    if (!bytes_view(rest, 0, MEMBER_HEADER, &h)) {
        return err_set(err, ST_FORMAT, "an NVIDIA fat binary ends within a member");
    }
    uint64_t header = bytes_le32(h.p + 4);
    uint64_t size = bytes_le64(h.p + 8);
    if (header < MEMBER_HEADER || !bytes_has(rest, header, size)) {
        return err_set(err, ST_FORMAT, "a member of an NVIDIA fat binary lies beyond its end");
    }
    unsigned kind = bytes_le16(h.p);
    uint32_t capability = bytes_le32(h.p + 28);
    uint64_t flags = bytes_le64(h.p + 40);
    if ((kind == KIND_PTX || kind == KIND_CUBIN) && capability <= MAX_CAPABILITY) {
        struct strbuf name;
        strbuf_init(&name, sink->scratch, 32);
        strbuf_fmt(&name, "%s_%" PRIu32 "%s", kind == KIND_PTX ? "compute" : "sm", capability,
                   (flags & FLAG_ARCH_SPECIFIC) != 0     ? "a"
                   : (flags & FLAG_FAMILY_SPECIFIC) != 0 ? "f"
                                                         : "");
        sink->found(sink->ctx, strbuf_str(&name), kind == KIND_PTX ? GPU_CODE_PTX : GPU_CODE_CUBIN,
                    size);
    }
    *ret_size = header + size;
    return ST_OK;
}

static enum status read_fatbin(struct str rest, struct gpu_code_sink *sink, uint64_t *ret_end,
                               struct err *err)
{
    uint64_t header = bytes_le16(rest.p + 6);
    uint64_t size = bytes_le64(rest.p + 8);
    struct str members;
    if (header < FATBIN_HEADER || !bytes_view(rest, header, size, &members)) {
        return err_set(err, ST_FORMAT, "an NVIDIA fat binary lies beyond the end of its section");
    }
    *ret_end = header + size;
    for (uint64_t at = 0; at < members.n;) {
        uint64_t step = 0;
        TRY(read_member(str_slice(members, (size_t)at, members.n), sink, &step, err));
        at += step;
    }
    return ST_OK;
}

void nv_fatbin_read(struct str bytes, struct gpu_code_sink *sink)
{
    size_t at = 0;
    while (at + FATBIN_HEADER <= bytes.n) {
        struct str rest = str_slice(bytes, at, bytes.n);
        if (!is_fatbin(rest)) {
            at += 8; /* padding between the fat binaries of several translation units */
            continue;
        }
        struct arena_mark mark = arena_mark(sink->scratch);
        struct err err = {0};
        uint64_t end = FATBIN_HEADER;
        sink->containers++;
        if (read_fatbin(rest, sink, &end, &err) != ST_OK) {
            gpu_code_unreadable(sink, &err);
        }
        arena_rewind(sink->scratch, mark);
        at = end < rest.n ? (at + (size_t)end + 7) & ~(size_t)7 : bytes.n;
    }
}

struct str nv_fatbin_cubin_target(struct arena *a, const struct elf *cubin)
{
    if (cubin->machine != ELF_MACHINE_CUDA) {
        return (struct str){.p = "", .n = 0};
    }
    /* ABI 7 keeps the number in the low byte, ABI 8 (CUDA 12.8) in the next one. */
    bool old = cubin->abi_version <= CUBIN_ABI_7;
    unsigned capability = old ? cubin->flags & 0xff : cubin->flags >> 8 & 0xff;
    return str_of(arena_fmt(a, "sm_%u%s", capability,
                            old && (cubin->flags & CUBIN_FLAG_ACCELERATED) != 0 ? "a" : ""));
}
