// SPDX-License-Identifier: Apache-2.0
/* From an address to an operand, from an instruction to a library. */
#include "ops/torch/fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

/* Reads that miss by more than this are not blamed on an operand. */
#define REACH_BYTES  (1u << 20)
#define MAPS_CEILING (8u << 20)

static uint64_t number_of(const struct tree *t, const char *key)
{
    uint64_t n = 0;
    return str_to_u64(str_of(tree_text(t, key, "")), 10, &n) == ST_OK ? n : 0;
}

void torch_places_read(const struct tree *operands, struct torch_places *ret_places)
{
    *ret_places = (struct torch_places){0};
    const struct tree *t = operands != NULL ? operands->child : NULL;
    for (; t != NULL && ret_places->count < TORCH_OPERANDS_MAX; t = t->next) {
        struct torch_place *p = &ret_places->items[ret_places->count++];
        snprintf(p->name, sizeof p->name, "%s", tree_text(t, "name", "?"));
        p->address = number_of(t, "address");
        p->bytes = number_of(t, "bytes");
        p->low = number_of(t, "low");
        p->high = number_of(t, "high");
    }
}

/* Distance of an address from an operand's edge when it lies outside; UINT64_MAX inside. */
static uint64_t outside(const struct torch_place *p, uint64_t address, bool *ret_after)
{
    if (address >= p->address + p->bytes) {
        *ret_after = true;
        return address - (p->address + p->bytes);
    }
    if (address < p->address) {
        *ret_after = false;
        return p->address - address;
    }
    return UINT64_MAX;
}

void torch_fault_locate(struct arena *a, const struct torch_places *places, uint64_t address,
                        uint64_t reach, struct torch_fault *fault)
{
    uint64_t best = UINT64_MAX;
    fault->operand = NULL;
    for (size_t i = 0; i < places->count; i++) {
        const struct torch_place *p = &places->items[i];
        if (p->low == 0 || (address >= p->low && address < p->high)) {
            continue; /* not guarded, or not a hole */
        }
        bool after = false;
        uint64_t d = outside(p, address, &after);
        if (d <= reach && d < best) {
            best = d;
            fault->operand = arena_strdup(a, p->name);
            fault->after = after;
            fault->distance = d;
        }
    }
}

/* The file of an instruction, out of /proc/PID/maps. */
static void locate_code(struct arena *a, struct str maps, uint64_t at, struct torch_fault *fault)
{
    struct str line;
    while (str_cut_line(&maps, &line)) {
        struct str low, rest = line, high;
        uint64_t from = 0, to = 0, skipped = 0;
        struct str mode, offset;
        if (!str_cut(&rest, '-', &low) || !str_cut(&rest, ' ', &high) ||
            !str_cut(&rest, ' ', &mode) || !str_cut(&rest, ' ', &offset) ||
            str_to_u64(low, 16, &from) != ST_OK || str_to_u64(high, 16, &to) != ST_OK ||
            str_to_u64(offset, 16, &skipped) != ST_OK || at < from || at >= to) {
            continue;
        }
        size_t slash = str_find_char(rest, '/', 0);
        if (slash != SIZE_MAX) {
            fault->library = str_dup(a, str_slice(rest, slash, rest.n));
            fault->offset = at - from + skipped;
        }
        return;
    }
}

static struct str read_maps(struct arena *a, pid_t worker)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)worker);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct strbuf text;
    strbuf_init(&text, a, MAPS_CEILING);
    char part[8192];
    ssize_t n;
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0) {
        strbuf_add(&text, (struct str){.p = part, .n = (size_t)n});
    }
    if (fd >= 0) {
        close(fd);
    }
    return strbuf_str(&text);
}

void torch_fault_read(struct arena *a, const unsigned char *record, pid_t worker,
                      const struct torch_places *places, struct torch_fault *ret_fault)
{
    const char *p = (const char *)record;
    struct torch_fault f = {.signal = (int)bytes_le32(p)};
    uint64_t address = bytes_le64(p + 8);
    f.is_write = (bytes_le64(p + 24) & 2) != 0; /* bit 1 of the page-fault error code */
    torch_fault_locate(a, places, address, REACH_BYTES, &f);
    locate_code(a, read_maps(a, worker), bytes_le64(p + 16), &f);
    *ret_fault = f;
}
