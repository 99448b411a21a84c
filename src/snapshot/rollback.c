// SPDX-License-Identifier: Apache-2.0
/* See rollback.h. */
#include "snapshot/rollback.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "snapshot/apt_lists.h"
#include "snapshot/dpkg.h"

enum {
    DEPENDENTS_MAX = 200
};

/* Starts of names of packages whose change is in effect only after a reboot. */
static const char *const reboot_rows[] = {
    "linux-image",   "linux-modules",        "linux-firmware", "firmware-",
    "amdgpu-dkms",   "amdgpu-dkms-firmware", "nvidia-dkms",    "nvidia-kernel",
    "nvidia-driver", "intel-microcode",      "amd64-microcode"};

static bool needs_reboot(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(reboot_rows); i++) {
        if (str_starts(str_of(name), reboot_rows[i])) {
            return true;
        }
    }
    return false;
}

static void add_package(struct arena *a, const struct stack_change *c, struct rollback *r)
{
    const char *wanted = c->to != NULL ? c->to->version : NULL;
    const char *now = c->from != NULL ? c->from->version : NULL;
    *VEC_PUSH(a, &r->packages) = (struct rollback_package){
        .name = c->name,
        .now = now,
        .wanted = wanted,
        .source = wanted == NULL ? ROLLBACK_NONE_NEEDED : ROLLBACK_UNKNOWN,
        .download_bytes = wanted == NULL ? 0 : -1,
        .reboot = needs_reboot(c->name),
        .usable = dpkg_name_valid(c->name) && (wanted == NULL || dpkg_version_valid(wanted))};
}

/* ---- Python ---- */

static bool python_word(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9');
        if (!plain && strchr("._+!-", *p) == NULL) {
            return false;
        }
    }
    return text[0] != '\0' && text[0] != '-' && strlen(text) < 200;
}

/* PyTorch publishes each platform's wheels under an index of its own; the local version names it:
 * 2.5.1+rocm6.2, 2.7.0+cu126. Source: https://pytorch.org/get-started/previous-versions/ */
static const char *index_of(struct arena *a, const char *name, const char *version)
{
    static const char *const names[] = {"torch", "torchvision", "torchaudio", "torchtext"};
    struct str s = str_of(version);
    size_t plus = str_find_char(s, '+', 0);
    if (plus == SIZE_MAX || !python_word(version)) {
        return NULL;
    }
    struct str local = str_slice(s, plus + 1, s.n);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        bool published = str_starts(local, "rocm") || str_starts(local, "cu") ||
                         str_is(local, "cpu");
        if (strcmp(name, names[i]) == 0 && published && local.n < 12) {
            return arena_fmt(a, "https://download.pytorch.org/whl/%.*s", STR_ARG(local));
        }
    }
    return NULL;
}

/* Rows of the framework section that are no distributions. */
static bool is_wheel(const struct stack_change *c)
{
    static const char *const others[] = {"python", "torch-build", "torch-hip", "torch-cuda"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (c->section == STACK_FRAMEWORK && strcmp(c->name, others[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void add_wheel(struct arena *a, const struct stack_change *c, struct rollback *r)
{
    const char *wanted = c->to != NULL ? c->to->version : NULL;
    if (c->to != NULL && wanted == NULL) {
        *VEC_PUSH(a, &r->by_hand) = arena_fmt(
            a, "Python package %s: the snapshot does not know its version", c->name);
        return;
    }
    *VEC_PUSH(a, &r->wheels) = (struct rollback_wheel){
        .name = c->name,
        .now = c->from != NULL ? c->from->version : NULL,
        .wanted = wanted,
        .index = wanted != NULL ? index_of(a, c->name, wanted) : NULL,
        .usable = python_word(c->name) && (wanted == NULL || python_word(wanted))};
}

/* ---- by hand ---- */

static const char *const hands[STACK_SECTION_COUNT] = {
    [STACK_DRIVER] = "the driver follows its package (amdgpu-dkms, nvidia-driver) or the kernel",
    [STACK_FIRMWARE] =
        "firmware follows linux-firmware or amdgpu-dkms-firmware, a BIOS its vendor's tool",
    [STACK_RUNTIME] = "the runtime follows its packages or the wheel that brings it",
    [STACK_LIBRARY] = "the library follows its package or the wheel that brings it",
    [STACK_CONTAINER] = "start the container from the image of the snapshot",
    [STACK_MACHINE] = "hardware and distribution are not changed by a plan",
};

static void add_by_hand(struct arena *a, const struct stack_change *c, struct rollback *r)
{
    const char *from = stack_item_text(a, c->from, false);
    const char *to = stack_item_text(a, c->to, false);
    const char *how = hands[c->section];
    if (c->section == STACK_KERNEL) {
        r->reboot = true;
        how = strcmp(c->name, "release") == 0
                  ? "install its linux-image and choose it in the boot menu"
                  : "set it in the boot loader (GRUB_CMDLINE_LINUX, update-grub) or in "
                    "/etc/modprobe.d";
    } else if (c->section == STACK_DRIVER || c->section == STACK_FIRMWARE) {
        r->reboot = true;
    } else if (c->section == STACK_FRAMEWORK) {
        how = strcmp(c->name, "python") == 0 ? "make the environment anew with that Python"
                                             : "it follows the wheel of torch";
    } else if (c->section == STACK_PACKAGE) {
        how = "the change has another kind than a version";
    }
    if (how != NULL) {
        *VEC_PUSH(a, &r->by_hand) = arena_fmt(
            a, "%s %s, %s -> %s: %s", stack_section_name(c->section), c->name, from, to, how);
    }
}

static void take_change(struct arena *a, const struct stack_change *c, bool everything,
                        struct rollback *r)
{
    bool version = c->kind <= CHANGE_OTHER;
    if (c->section == STACK_PACKAGE && version) {
        if (c->matters || everything) {
            add_package(a, c, r);
        }
    } else if ((c->section == STACK_PYTHON || c->section == STACK_FRAMEWORK) && is_wheel(c)) {
        if (c->kind != CHANGE_MOVED) {
            add_wheel(a, c, r);
        }
    } else if (c->section == STACK_ENVIRONMENT &&
               (strcmp(c->name, "VIRTUAL_ENV") == 0 || strcmp(c->name, "CONDA_PREFIX") == 0)) {
        *VEC_PUSH(a, &r->by_hand) = arena_fmt(a, "activate the Python environment %s",
                                              stack_item_text(a, c->to, false));
    } else if (c->section == STACK_ENVIRONMENT) {
        *VEC_PUSH(a, &r->switches) = (struct rollback_switch){
            .name = c->name,
            .now = c->from != NULL ? c->from->version : NULL,
            .wanted = c->to != NULL ? c->to->version : NULL};
    } else if (c->kind != CHANGE_MOVED) {
        add_by_hand(a, c, r);
    }
}

/* ---- what stands on it ---- */

static bool depends_on(struct str list, const char *name)
{
    struct str one;
    while (dpkg_next_dependency(&list, &one)) {
        if (str_is(one, name)) {
            return true;
        }
    }
    return false;
}

static void add_dependents(struct arena *a, const struct fs *fs, struct rollback *r)
{
    struct arena *scratch = arena_new(0);
    struct str text;
    struct dpkg_paragraph p;
    if (fs_read(fs, scratch, DPKG_STATUS, DPKG_STATUS_MAX, &text, NULL) == ST_OK) {
        while (dpkg_next(&text, &p)) {
            for (size_t i = 0; dpkg_installed(&p) && i < r->packages.count; i++) {
                struct rollback_package *one = &r->packages.items[i];
                if (one->dependents.count < DEPENDENTS_MAX &&
                    (depends_on(p.depends, one->name) || depends_on(p.pre_depends, one->name))) {
                    *VEC_PUSH(a, &one->dependents) = str_dup(a, p.package);
                }
            }
        }
    }
    arena_free(scratch);
}

void rollback_make(struct arena *a, const struct fs *fs, const struct stack *now,
                   const struct stack *wanted, const struct stack_diff *diff, bool everything,
                   struct rollback *ret_rollback)
{
    struct rollback r = {.target = wanted->source, .python = now->python};
    for (size_t i = 0; i < diff->changes.count; i++) {
        take_change(a, &diff->changes.items[i], everything, &r);
    }
    if (r.packages.count != 0) {
        apt_lists_look_up(a, fs, &r);
        add_dependents(a, fs, &r);
    }
    for (size_t i = 0; i < r.packages.count; i++) {
        const struct rollback_package *p = &r.packages.items[i];
        r.reboot |= p->reboot;
        r.download_bytes += p->download_bytes > 0 ? p->download_bytes : 0;
        r.unknown_sizes += p->download_bytes < 0;
    }
    *ret_rollback = r;
}

bool rollback_is_empty(const struct rollback *r)
{
    return r->packages.count == 0 && r->wheels.count == 0 && r->switches.count == 0 &&
           r->by_hand.count == 0;
}
