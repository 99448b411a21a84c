// SPDX-License-Identifier: Apache-2.0
/*
 * What devices and libraries there are, and why others are not. Each back end and each vendor
 * library is asked in a child of its own: one that crashes or hangs is a row of the answer.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/device.h"
#include "device/gemm.h"
#include "device/isolate.h"

enum {
    DEVICES_MAX = 32,
    ROWS_MAX = 16,
    DEADLINE_MS = 120000
};

/* Shared by parent and child. */
struct list_page {
    enum device_kind kind;
    const struct gemm_vendor *vendor; /* NULL: the back end itself */
    const struct device_options *options;
    size_t device_count, row_count;
    struct device_info devices[DEVICES_MAX];
    struct device_feature rows[ROWS_MAX];
};

static const struct vendor_row {
    const struct gemm_vendor *vendor;
    enum device_kind kind;
} vendors[] = {
    {&gemm_vendor_cublaslt, DEVICE_CUDA},
    {&gemm_vendor_hipblaslt, DEVICE_HIP},
    {&gemm_vendor_rocblas, DEVICE_HIP},
    {&gemm_vendor_clblast, DEVICE_OPENCL},
};

/* --- in the child ------------------------------------------------------------------------------ */

static void ask_backend(void *context)
{
    struct list_page *page = context;
    struct arena *a = arena_new(0);
    const struct device_backend *backend = device_backend_of(page->kind);
    static const struct device_options none;
    const struct device_options *options = page->options != NULL ? page->options : &none;
    struct device_feature_list rows = {0};
    int count = 0;
    if (backend->probe(a, options, &rows, &count, NULL) != ST_OK) {
        count = 0;
    }
    for (size_t i = 0; i < rows.count && i < ROWS_MAX; i++) {
        page->rows[page->row_count++] = rows.items[i];
    }
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        struct device *device;
        struct err err;
        if (backend->open(a, options, i, &device, &err) == ST_OK) {
            page->devices[page->device_count++] = device->info;
        } else if (page->row_count < ROWS_MAX) {
            struct device_feature *row = &page->rows[page->row_count++];
            *row = (struct device_feature){.state = FEATURE_BROKEN};
            str_print(row->backend, sizeof row->backend, "%s", backend->name);
            str_print(row->feature, sizeof row->feature, "device %d", i);
            str_print(row->reason, sizeof row->reason, "%s", err.text);
        }
    }
}

static void ask_vendor(void *context)
{
    struct list_page *page = context;
    struct arena *a = arena_new(0);
    struct device *device;
    struct gemm_library *library;
    struct err err;
    struct device_feature *row = &page->rows[0];
    enum status st = device_open(a, page->kind, 0, page->options, &device, &err);
    if (st == ST_OK) {
        st = page->vendor->open(a, device, NULL, &library, &err);
    }
    if (st != ST_OK) {
        row->state = st == ST_ABSENT ? FEATURE_MISSING : FEATURE_BROKEN;
        str_print(row->reason, sizeof row->reason, "%s", err.text);
    } else {
        row->state = FEATURE_READY;
        str_print(row->version, sizeof row->version, "%s", page->vendor->version(library));
        str_print(row->reason, sizeof row->reason, "the library starts on %s:0",
                  device->backend->name);
    }
    page->row_count = 1;
}

/* --- in the parent ----------------------------------------------------------------------------- */

static enum status ask(struct arena *a, struct list_page *page, struct device_info_list *devices,
                       struct device_feature_list *why, struct err *err)
{
    const char *name = page->vendor != NULL ? page->vendor->name
                                            : device_backend_of(page->kind)->name;
    if (page->vendor != NULL) {
        str_print(page->rows[0].backend, sizeof page->rows[0].backend, "%s", name);
        str_print(page->rows[0].feature, sizeof page->rows[0].feature, "matrix products");
    }
    struct isolate_options how = {.deadline_ms = DEADLINE_MS};
    struct isolate_end end;
    TRY(isolate_run(&how, page->vendor != NULL ? ask_vendor : ask_backend, page, &end, err));
    size_t rows = page->row_count < ROWS_MAX ? page->row_count : ROWS_MAX;
    for (size_t i = 0; i < rows; i++) {
        *VEC_PUSH(a, why) = page->rows[i];
    }
    for (size_t i = 0; i < page->device_count && i < DEVICES_MAX; i++) {
        *VEC_PUSH(a, devices) = page->devices[i];
    }
    if (end.ending != ENDING_OK) {
        struct device_feature *row = VEC_PUSH(a, why);
        str_print(row->backend, sizeof row->backend, "%s", name);
        str_print(row->feature, sizeof row->feature, "%s",
                  page->vendor != NULL ? "matrix products" : "start");
        row->state = FEATURE_BROKEN;
        str_print(row->reason, sizeof row->reason, "asking for it ended by %s%s%s",
                  ending_name(end.ending), end.text[0] != '\0' ? ": " : "", end.text);
    }
    return ST_OK;
}

static bool has_kind(const struct device_info_list *devices, enum device_kind kind)
{
    for (size_t i = 0; i < devices->count; i++) {
        if (devices->items[i].kind == kind) {
            return true;
        }
    }
    return false;
}

enum status device_list(struct arena *a, const struct device_options *options,
                        struct device_info_list *ret_devices, struct device_feature_list *ret_why,
                        struct err *err)
{
    struct list_page *page = isolate_shared(sizeof *page);
    if (page == NULL) {
        return err_sys(err, errno, "cannot share %zu bytes with a child process", sizeof *page);
    }
    struct device_info_list devices = {0};
    struct device_feature_list why = {0};
    enum status st = ST_OK;
    for (size_t kind = 0; kind < DEVICE_KIND_COUNT && st == ST_OK; kind++) {
        if (device_backend_of((enum device_kind)kind) != NULL) {
            *page = (struct list_page){.kind = (enum device_kind)kind, .options = options};
            st = ask(a, page, &devices, &why, err);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(vendors) && st == ST_OK; i++) {
        if (has_kind(&devices, vendors[i].kind)) {
            *page = (struct list_page){
                .kind = vendors[i].kind, .vendor = vendors[i].vendor, .options = options};
            st = ask(a, page, &devices, &why, err);
        }
    }
    isolate_shared_free(page, sizeof *page);
    TRY(st);
    *ret_devices = devices;
    *ret_why = why;
    return ST_OK;
}
