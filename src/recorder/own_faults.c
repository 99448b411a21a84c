// SPDX-License-Identifier: Apache-2.0
/*
 * Whose GPU faults, crashes, and killing for want of memory a kernel log tells of. NVIDIA's driver says it in
 * the line of the Xid ("pid=3242"); amdgpu's block of a page fault says it in its first line or in one of its
 * own: "for process", "in process" or "Process" NAME "pid" N "thread", by the version of the kernel.
 *
 * Source of the forms: drivers/gpu/drm/amd/amdgpu/gmc_v9_0.c to gmc_v12_0.c, amdgpu_gmc.c.
 */
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fs.h"

#include "recorder/run_folder.h"

enum {
    BLOCK_LINES = 64 /* of the kernel's log that are searched for the rest of a page fault */
};

static bool has(struct str line, const char *text)
{
    return str_find(line, text, 0) != SIZE_MAX;
}

static bool has_record(struct arena *a, const char *folder, uint64_t pid)
{
    struct arena_mark mark = arena_mark(a);
    bool found = access(arena_fmt(a, "%s/record.%llu.bin", folder, (unsigned long long)pid),
                        F_OK) == 0 ||
                 access(arena_fmt(a, "%s/maps.%llu", folder, (unsigned long long)pid), F_OK) == 0;
    arena_rewind(a, mark);
    return found;
}

static bool any_record(struct arena *a, const char *folder)
{
    struct fs live = {.prefix = ""};
    const char *const *names;
    size_t count = 0;
    bool any = false;
    if (fs_list(&live, a, folder, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            any = any || str_starts(str_of(names[i]), "record.");
        }
    }
    return any;
}

/* The digits at the start of `s`, or 0. */
static uint64_t leading_number(struct str s)
{
    size_t n = 0;
    uint64_t number = 0;
    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9') {
        n++;
    }
    return n > 0 && str_to_u64(str_slice(s, 0, n), 10, &number) == ST_OK ? number : 0;
}

/* "[1234.5] NVRM: Xid (PCI:0000:18:00): 31, pid=3242, name=python3, ...": the process, or 0. */
static uint64_t process_of_xid(struct str line)
{
    size_t at = str_find(line, "pid=", 0);
    return has(line, "NVRM: Xid") && at != SIZE_MAX
               ? leading_number(str_slice(line, at + 4, line.n)) /* '<unknown>' has none */
               : 0;
}

/* "... process python3 pid 15615 thread ...": the process, or 0. */
static uint64_t process_of_page_fault(struct str line)
{
    size_t name = str_find(line, "rocess ", 0);
    size_t at = name != SIZE_MAX ? str_find(line, " pid ", name) : SIZE_MAX;
    return at != SIZE_MAX ? leading_number(str_slice(line, at + 5, line.n)) : 0;
}

/* "amdgpu 0000:0e:00.0:" as it stands in the line; empty when it is none of amdgpu's. */
static struct str device_of(struct str line)
{
    size_t at = str_find(line, "amdgpu ", 0);
    size_t end = at != SIZE_MAX ? str_find(line, ": ", at) : SIZE_MAX;
    return end != SIZE_MAX ? str_slice(line, at, end) : (struct str){.p = "", .n = 0};
}

static bool begins_page_fault(struct str line)
{
    return has(line, "page fault (src_id:");
}

static bool goes_on(struct str line)
{
    static const char *const parts[] = {"rocess ",
                                        "in page starting at address",
                                        "_PROTECTION_FAULT_STATUS",
                                        "Faulty UTCL2",
                                        "MORE_FAULTS:",
                                        "WALKER_ERROR:",
                                        " RW:",
                                        "PERMISSION_FAULTS:",
                                        "MAPPING_ERROR:",
                                        "cookie node_id"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (has(line, parts[i])) {
            return true;
        }
    }
    return false;
}

struct block {
    uint64_t pid; /* 0: it names nobody */
    size_t lines[BLOCK_LINES];
    size_t count;
};

/* The page fault that begins at lines[at]; lines of other devices may stand between its own. */
static void read_block(const struct str *lines, size_t count, size_t at, struct block *ret)
{
    struct str device = device_of(lines[at]);
    size_t last = count - at > BLOCK_LINES ? at + BLOCK_LINES : count;
    *ret = (struct block){.pid = process_of_page_fault(lines[at]), .lines = {at}, .count = 1};
    for (size_t i = at + 1; i < last && device.n > 0; i++) {
        if (!str_eq(device_of(lines[i]), device)) {
            continue;
        }
        if (begins_page_fault(lines[i]) || !goes_on(lines[i])) {
            break;
        }
        ret->lines[ret->count++] = i;
        ret->pid = ret->pid != 0 ? ret->pid : process_of_page_fault(lines[i]);
    }
}

/* Marks the lines of faults whose process left no record. */
static void find_foreign(struct arena *a, const char *folder, const struct str *lines, size_t count,
                         bool *foreign)
{
    for (size_t i = 0; i < count; i++) {
        struct block b = {.pid = process_of_xid(lines[i]), .lines = {i}, .count = 1};
        if (begins_page_fault(lines[i])) {
            read_block(lines, count, i, &b);
        }
        bool other = b.pid != 0 && !has_record(a, folder, b.pid);
        for (size_t k = 0; k < b.count && other; k++) {
            foreign[b.lines[k]] = true;
        }
    }
}

/* A log by lines, and which of them are another job's. */
struct sorting {
    struct str *lines;
    bool *foreign;
    size_t count;
};

static struct sorting sorting_of(struct arena *a, struct str log)
{
    struct sorting s = {0};
    struct str rest = log, line;
    while (str_cut_line(&rest, &line)) {
        s.count++;
    }
    s.lines = arena_array(a, s.count + 1, sizeof *s.lines);
    s.foreign = arena_array(a, s.count + 1, sizeof *s.foreign);
    rest = log;
    for (size_t i = 0; i < s.count && str_cut_line(&rest, &s.lines[i]); i++) {
        s.foreign[i] = false;
    }
    return s;
}

static void part(struct arena *a, const struct sorting *s, size_t bytes, struct str *ret_own,
                 struct str *ret_others)
{
    struct strbuf own, others;
    strbuf_init(&own, a, bytes + 2);
    strbuf_init(&others, a, bytes + 2);
    for (size_t i = 0; i < s->count; i++) {
        struct strbuf *to = s->foreign[i] ? &others : &own;
        strbuf_add(to, s->lines[i]);
        strbuf_addc(to, '\n');
    }
    *ret_own = strbuf_str(&own);
    *ret_others = strbuf_str(&others);
}

void run_folder_own_faults(struct arena *a, const char *folder, struct str log, struct str *ret_own,
                           struct str *ret_others)
{
    *ret_own = log;
    *ret_others = (struct str){.p = "", .n = 0};
    if (!any_record(a, folder)) {
        return;
    }
    struct sorting s = sorting_of(a, log);
    find_foreign(a, folder, s.lines, s.count, s.foreign);
    part(a, &s, log.n, ret_own, ret_others);
}

/* "Out of memory: Killed process 302 (python)", "oom_reaper: reaped process 302 (python)", "oom-kill:…,pid=302,uid=0":
 * the process, or 0. */
static uint64_t process_of_killing(struct str line)
{
    static const char *const before[] = {"illed process ", "oom_reaper: reaped process "};
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        size_t at = str_find(line, before[i], 0);
        if (at != SIZE_MAX) {
            return leading_number(str_slice(line, at + strlen(before[i]), line.n));
        }
    }
    size_t at = has(line, "oom-kill:") ? str_find(line, ",pid=", 0) : SIZE_MAX;
    return at != SIZE_MAX ? leading_number(str_slice(line, at + 5, line.n)) : 0;
}

/* "python3[302]: segfault at 0 ip …", "traps: python3[302] general protection fault ip:…": the process, or 0. */
static uint64_t process_of_crash(struct str line)
{
    static const char *const behind[] = {"]: segfault at ", "] general protection", "] trap "};
    for (size_t i = 0; i < ARRAY_LEN(behind); i++) {
        size_t end = str_find(line, behind[i], 0);
        size_t at = end != SIZE_MAX ? end : 0;
        while (at > 0 && line.p[at - 1] >= '0' && line.p[at - 1] <= '9') {
            at--;
        }
        if (at > 0 && at < end && line.p[at - 1] == '[') {
            return leading_number(str_slice(line, at, end));
        }
    }
    return 0;
}

/* Tables of processes and memory stand in front of the line that says who was killed. */
static void mark_killing(struct sorting *s, size_t at)
{
    s->foreign[at] = true;
    for (size_t i = at; has(s->lines[at], "illed process ") && i-- > 0;) {
        if (has(s->lines[i], "NVRM") || has(s->lines[i], "amdgpu")) {
            continue;
        }
        if (has(s->lines[i], "illed process ") || has(s->lines[i], "oom_reaper: ")) {
            return;
        }
        s->foreign[i] = true;
        if (has(s->lines[i], "invoked oom-killer")) {
            return;
        }
    }
}

void run_folder_own_killings(struct arena *a, const char *folder, const struct pid_list *seen,
                             struct str log, struct str *ret_own, struct str *ret_others)
{
    struct sorting s = sorting_of(a, log);
    for (size_t i = 0; i < s.count && !seen->full; i++) {
        uint64_t killed = process_of_killing(s.lines[i]);
        uint64_t pid = killed != 0 ? killed : process_of_crash(s.lines[i]);
        if (pid != 0 && !pid_list_has(seen, (pid_t)pid) && !has_record(a, folder, pid)) {
            mark_killing(&s, i);
        }
    }
    part(a, &s, log.n, ret_own, ret_others);
}
