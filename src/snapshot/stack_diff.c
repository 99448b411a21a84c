// SPDX-License-Identifier: Apache-2.0
/* See stack_diff.h. */
#include "snapshot/stack_diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "base/version.h"

enum {
    EVIDENCE_MAX = 40 /* lines of one finding; the rest is counted */
};

/* Starts of names; one that ends in '$' is the whole name. */
static const char *const package_rows[] = {
    "amdgpu",      "rocm",       "hip",         "hsa",          "roc",          "miopen",
    "rccl",        "amdrocm",    "libamdhip",   "libhsa",       "libdrm",       "nvidia",
    "libnvidia",   "cuda",       "libcuda",     "libcublas",    "libcudnn",     "libnccl",
    "linux-image", "linux-mod",  "linux-firm",  "firmware-amd", "firmware-nv",  "linux-headers",
    "dkms$",       "libc6$",     "libstdc++6$", "libgcc-s1$",   "libblas3$",    "liblapack3$",
    "libopenblas", "libblis",    "libmkl",      "intel-mkl",    "intel-oneapi", "python3$",
    "openmpi",     "libopenmpi", "ucx",         "libucx",       "libibverbs",   "libnuma1$",
    "libgomp1$",   "libdnnl",
};

bool stack_package_matters(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(package_rows); i++) {
        struct str row = str_of(package_rows[i]);
        bool whole = row.p[row.n - 1] == '$';
        if (whole ? str_is(str_slice(row, 0, row.n - 1), name) : str_starts(str_of(name), row.p)) {
            return true;
        }
    }
    return false;
}

const char *stack_change_name(enum stack_change_kind k)
{
    static const char *const names[CHANGE_KIND_COUNT] = {
        [CHANGE_ADDED] = "added", [CHANGE_REMOVED] = "removed", [CHANGE_NEWER] = "newer",
        [CHANGE_OLDER] = "older", [CHANGE_OTHER] = "other",     [CHANGE_REBUILT] = "rebuilt",
        [CHANGE_MOVED] = "moved",
    };
    return names[k];
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Only where both sides know it. */
static bool both_differ(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) != 0;
}

/* "1:6.8.5-2" without its epoch. */
static struct str without_epoch(const char *version)
{
    struct str s = str_of(version);
    size_t colon = str_find_char(s, ':', 0);
    return colon != SIZE_MAX && colon <= 2 ? str_slice(s, colon + 1, s.n) : s;
}

static bool has_versions(enum stack_section s)
{
    return s != STACK_ENVIRONMENT && s != STACK_MACHINE && s != STACK_CONTAINER;
}

static bool kind_of(const struct stack_item *from, const struct stack_item *to,
                    enum stack_change_kind *ret_kind)
{
    if (!same(from->version, to->version)) {
        *ret_kind = CHANGE_OTHER;
        if (from->version != NULL && to->version != NULL && has_versions(from->section)) {
            struct str a = without_epoch(from->version);
            struct str b = without_epoch(to->version);
            int order = version_valid(a) && version_valid(b) ? version_cmp(a, b) : 0;
            *ret_kind = order < 0 ? CHANGE_NEWER : order > 0 ? CHANGE_OLDER : CHANGE_OTHER;
        }
        return true;
    }
    if (both_differ(from->build_id, to->build_id) || both_differ(from->digest, to->digest)) {
        *ret_kind = CHANGE_REBUILT;
        return true;
    }
    if (both_differ(from->path, to->path)) {
        *ret_kind = CHANGE_MOVED;
        return true;
    }
    return false;
}

static bool matters(const struct stack_change *c)
{
    switch (c->section) {
    case STACK_PYTHON: return false;
    case STACK_PACKAGE: return stack_package_matters(c->name);
    case STACK_MACHINE: return strncmp(c->name, "gpu", 3) == 0;
    default: return c->kind != CHANGE_MOVED;
    }
}

static const struct stack_gap *gap_of(const struct stack *s, const struct stack_item *item)
{
    for (size_t i = 0; i < s->gaps.count; i++) {
        const struct stack_gap *g = &s->gaps.items[i];
        if (g->section == item->section && (g->name == NULL || strcmp(g->name, item->name) == 0)) {
            return g;
        }
    }
    return NULL;
}

static void add_change(struct arena *a, struct stack_diff *d, const struct stack_item *from,
                       const struct stack_item *to)
{
    const struct stack_item *any = from != NULL ? from : to;
    struct stack_change c = {.section = any->section, .name = any->name, .from = from, .to = to};
    if (from == NULL || to == NULL) {
        c.kind = from == NULL ? CHANGE_ADDED : CHANGE_REMOVED;
    } else if (!kind_of(from, to, &c.kind)) {
        return;
    }
    c.matters = matters(&c);
    *VEC_PUSH(a, &d->changes) = c;
}

static int by_weight(const void *pa, const void *pb)
{
    const struct stack_change *a = pa;
    const struct stack_change *b = pb;
    if (a->section != b->section) {
        return a->section < b->section ? -1 : 1;
    }
    if (a->matters != b->matters) {
        return a->matters ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static int compare_places(const struct stack_item *a, const struct stack_item *b)
{
    if (a->section != b->section) {
        return a->section < b->section ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

/* A gap hides its section or its item: nothing there counts as added or removed. */
static void add_gaps(struct arena *a, const struct stack *s, struct stack_diff *d)
{
    for (size_t i = 0; i < s->gaps.count; i++) {
        bool have = false;
        for (size_t k = 0; k < d->gaps.count; k++) {
            have |= d->gaps.items[k].section == s->gaps.items[i].section &&
                    same(d->gaps.items[k].name, s->gaps.items[i].name);
        }
        if (!have) {
            *VEC_PUSH(a, &d->gaps) = s->gaps.items[i];
        }
    }
}

void stack_diff_make(struct arena *a, const struct stack *from, const struct stack *to,
                     struct stack_diff *ret_diff)
{
    struct stack_diff d = {0};
    size_t i = 0;
    size_t k = 0;
    while (i < from->items.count || k < to->items.count) {
        const struct stack_item *left = i < from->items.count ? &from->items.items[i] : NULL;
        const struct stack_item *right = k < to->items.count ? &to->items.items[k] : NULL;
        int order = left == NULL ? 1 : right == NULL ? -1 : compare_places(left, right);
        i += order <= 0;
        k += order >= 0;
        if (order < 0 && gap_of(to, left) == NULL) {
            add_change(a, &d, left, NULL);
        } else if (order > 0 && gap_of(from, right) == NULL) {
            add_change(a, &d, NULL, right);
        } else if (order == 0) {
            add_change(a, &d, left, right);
        }
    }
    if (d.changes.count > 1) {
        qsort(d.changes.items, d.changes.count, sizeof *d.changes.items, by_weight);
    }
    add_gaps(a, from, &d);
    add_gaps(a, to, &d);
    *ret_diff = d;
}

/* ---- findings ---- */

const char *stack_item_text(struct arena *a, const struct stack_item *item, bool with_build)
{
    if (item == NULL) {
        return "-";
    }
    const char *version = item->version != NULL ? item->version : "(no version)";
    const char *build = item->build_id != NULL ? item->build_id : item->digest;
    return with_build && build != NULL ? arena_fmt(a, "%s (build %.12s)", version, build) : version;
}

static const char *change_text(struct arena *a, const struct stack_change *c)
{
    bool build = c->kind == CHANGE_REBUILT;
    if (c->kind == CHANGE_MOVED) {
        return arena_fmt(a, "%s: %s -> %s (moved)", c->name, c->from->path, c->to->path);
    }
    return arena_fmt(a, "%s: %s -> %s (%s)", c->name, stack_item_text(a, c->from, build),
                     stack_item_text(a, c->to, build), stack_change_name(c->kind));
}

static const char *const claims[STACK_SECTION_COUNT] = {
    [STACK_DRIVER] =
        "Everything else speaks to the kernel driver, and a runtime is made for a range of its "
        "versions. A change is in effect after a reboot.",
    [STACK_FIRMWARE] =
        "Firmware schedules the work and resets the device; hangs and page faults may come and "
        "go with it alone.",
    [STACK_KERNEL] =
        "Memory management, the IOMMU and the in-tree driver come with the kernel and its "
        "parameters.",
    [STACK_RUNTIME] = "The runtime allocates, copies and launches for every library above it.",
    [STACK_LIBRARY] =
        "The maths libraries choose the kernels that run: time, rounding and faults may all "
        "differ, also between two builds of one version.",
    [STACK_FRAMEWORK] =
        "The framework chooses libraries and code paths; a wheel brings its own runtime.",
    [STACK_ENVIRONMENT] = "Switches change the path that runs without any other trace.",
    [STACK_CONTAINER] = "Another image is another user space.",
    [STACK_MACHINE] = "The hardware is not the same: other kernels are chosen for it.",
    [STACK_PYTHON] =
        "Packages that training does not stand on; data loading and tokenizers may still differ.",
    [STACK_PACKAGE] = "Packages of the distribution that belong to a GPU stack come first.",
};

static void section_finding(struct arena *a, const struct stack_change *c, size_t count,
                            struct finding_list *to)
{
    size_t weighty = 0;
    struct finding f = {.id = arena_fmt(a, "stack-%s", stack_section_name(c->section)),
                        .confidence = 1,
                        .claim = claims[c->section]};
    for (size_t i = 0; i < count; i++) {
        weighty += c[i].matters;
        if (i < EVIDENCE_MAX) {
            *VEC_PUSH(a, &f.evidence) = (struct evidence){.source = stack_section_name(c->section),
                                                          .text = change_text(a, &c[i])};
        }
    }
    if (count > EVIDENCE_MAX) {
        *VEC_PUSH(a, &f.evidence) = (struct evidence){
            .source = stack_section_name(c->section),
            .text = arena_fmt(a, "and %zu more: --json lists all", count - EVIDENCE_MAX)};
    }
    f.severity = weighty != 0 ? SEVERITY_WARNING : SEVERITY_NOTE;
    f.title = count == 1 ? arena_fmt(a, "%s differs: %s", stack_section_name(c->section),
                                     change_text(a, c))
                         : arena_fmt(a, "%s differs in %zu places%s",
                                     stack_section_name(c->section), count,
                                     weighty != 0 && weighty < count
                                         ? arena_fmt(a, ", %zu of them of the GPU stack", weighty)
                                         : "");
    *VEC_PUSH(a, to) = f;
}

void stack_diff_findings(struct arena *a, const struct stack_diff *d, struct finding_list *to)
{
    for (size_t i = 0; i < d->changes.count;) {
        size_t n = 1;
        while (i + n < d->changes.count &&
               d->changes.items[i + n].section == d->changes.items[i].section) {
            n++;
        }
        section_finding(a, &d->changes.items[i], n, to);
        i += n;
    }
    if (d->gaps.count == 0) {
        return;
    }
    struct finding *f = VEC_PUSH(a, to);
    *f = (struct finding){
        .id = "stack-not-compared",
        .severity = SEVERITY_UNKNOWN,
        .confidence = 1,
        .title = arena_fmt(a, "%zu %s not be compared", d->gaps.count,
                           d->gaps.count == 1 ? "thing could" : "things could"),
        .claim = "One of the two sides does not have it: not being seen to differ is no "
                 "proof of being the same."};
    for (size_t i = 0; i < d->gaps.count; i++) {
        const struct stack_gap *g = &d->gaps.items[i];
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = stack_section_name(g->section),
            .text = arena_fmt(a, "%s: %s", g->name != NULL ? g->name : "all", g->reason)};
    }
}
