// SPDX-License-Identifier: Apache-2.0
/*
 * See run_stack.h. Names come from the files as they are now; a library that was replaced since gives
 * none or wrong ones, which is why the build ids stand in the report.
 */
#include "cli/run/stack.h"

#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

#include "facts/elf.h"

/* What a frame or a thread's name says; the first row that holds decides, innermost frames first. */
static const struct {
    const char *part; /* of a frame's text */
    const char *phase;
} frame_phases[] = {
    {"torch::autograd::Engine::", "backward"},
    {"torch::autograd::generated", "backward"},
    {"fused_adam", "optimizer"},
    {"_foreach_addcdiv", "optimizer"},
    {"torch::nn::functional", "forward"},
};

static const struct {
    const char *start; /* of the thread's name */
    const char *phase;
} thread_phases[] = {
    {"pt_autograd", "backward"},
    {"pt_data", "data"},
};

/* "_ZN5torch8autograd6Engine11thread_mainE..." as "torch::autograd::Engine::thread_main": the nested
 * names alone, which is what a reader looks for. Other names stay as they are. */
static const char *plain_name(struct arena *a, struct str name)
{
    if (!str_starts(name, "_ZN")) {
        return str_dup(a, name);
    }
    struct strbuf out;
    strbuf_init(&out, a, 2000);
    size_t at = 3;
    while (at < name.n && (name.p[at] == 'K' || name.p[at] == 'V')) {
        at++;
    }
    while (at < name.n && name.p[at] >= '1' && name.p[at] <= '9') {
        size_t length = 0;
        while (at < name.n && name.p[at] >= '0' && name.p[at] <= '9' && length < 1000) {
            length = length * 10 + (size_t)(name.p[at++] - '0');
        }
        if (length > name.n - at) {
            break;
        }
        struct str part = {.p = name.p + at, .n = length};
        if (strbuf_str(&out).n > 0) {
            strbuf_addz(&out, "::");
        }
        strbuf_add(&out, part);
        at += length;
    }
    struct str plain = strbuf_str(&out);
    return plain.n > 0 ? str_dup(a, plain) : str_dup(a, name);
}

struct image {
    const char *path;
    struct fs_map map;
    struct elf elf;
    bool usable;
};

/* The same few libraries appear in most frames: each is opened once. */
static struct image *image_of(struct arena *a, struct image *images, size_t *count, size_t capacity,
                              const char *path)
{
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(images[i].path, path) == 0) {
            return &images[i];
        }
    }
    if (*count == capacity) {
        return NULL;
    }
    struct image *image = &images[(*count)++];
    *image = (struct image){.path = path};
    struct fs fs = {.prefix = ""};
    if (path[0] == '/' && fs_map(&fs, a, path, &image->map, NULL) == ST_OK) {
        struct str bytes = {.p = (const char *)image->map.p, .n = image->map.n};
        image->usable = elf_open(a, bytes, path, &image->elf, NULL) == ST_OK;
    }
    return image;
}

void run_stack_name(struct arena *a, const struct record_fault *fault, const struct maps *maps,
                    struct text_list *ret_frames)
{
    struct image images[24];
    size_t image_count = 0;
    /* In front of the faulting instruction stand the handler and the way into it. */
    uint32_t first = 0;
    for (uint32_t i = 0; i < fault->frame_count; i++) {
        first = fault->frames[i] == fault->instruction ? i : first;
    }
    for (uint32_t i = first; i < fault->frame_count; i++) {
        const struct mapping *m = maps_find(maps, fault->frames[i]);
        if (m == NULL || strstr(m->path, "libassay-record") != NULL) {
            continue;
        }
        struct image *image = image_of(a, images, &image_count, 24, m->path);
        struct str name;
        const char *text = maps_base_name(m);
        if (image != NULL && image->usable &&
            elf_symbol_covering(&image->elf, maps_image_offset(maps, fault->frames[i]), &name)) {
            text = arena_fmt(a, "%s: %s", text, plain_name(a, name));
        }
        *VEC_PUSH(a, ret_frames) = text;
    }
    for (size_t i = 0; i < image_count; i++) {
        fs_unmap(&images[i].map);
    }
}

const char *run_stack_phase(struct arena *a, const struct text_list *frames, const char *thread,
                            const char **ret_why)
{
    for (size_t i = 0; i < sizeof thread_phases / sizeof *thread_phases; i++) {
        if (str_starts(str_of(thread), thread_phases[i].start)) {
            *ret_why = arena_fmt(a, "the thread is named %s", thread);
            return thread_phases[i].phase;
        }
    }
    bool framework = false;
    for (size_t f = 0; f < frames->count; f++) {
        framework = framework || strstr(frames->items[f], "libtorch_") != NULL;
        for (size_t i = 0; i < sizeof frame_phases / sizeof *frame_phases; i++) {
            if (strstr(frames->items[f], frame_phases[i].part) != NULL) {
                *ret_why = arena_fmt(a, "the stack holds %s", frames->items[f]);
                return frame_phases[i].phase;
            }
        }
    }
    if (framework) {
        *ret_why = "the stack is PyTorch's, without its autograd engine";
        return "forward";
    }
    return NULL;
}
