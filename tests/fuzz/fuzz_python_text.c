// SPDX-License-Identifier: Apache-2.0
/* METADATA, WHEEL, RECORD, version.py, pyvenv.cfg and names of metadata folders. */
#include <stdint.h>
#include <string.h>

#include "facts/python_native.h"
#include "facts/python_text.h"
#include "facts/python_torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena *a = arena_new(256u << 20);
    struct str text = {.p = (const char *)bytes, .n = n};
    const char *name;
    const char *version;
    if (py_split_dist_folder(a, text, &name, &version) && version != NULL) {
        if (python_torch_build(a, version) == version) {
            __builtin_trap();
        }
    }
    const char *const values[] = {py_header(a, text, "Version"),
                                  py_pinned_requirement(a, text, "torch"),
                                  py_ini_value(a, text, "home")};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        if (values[i] != NULL && strlen(values[i]) > n) {
            __builtin_trap();
        }
    }
    static const char *const names[] = {"__version__", "hip", "cuda"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct py_literal value = py_assignment(a, text, names[i]);
        if (value.kind == PY_STRING) {
            const char *build = python_torch_build(a, value.string);
            if (build == value.string) {
                __builtin_trap(); /* results are copies */
            }
        }
    }
    struct str record = text;
    const char *path;
    while (py_record_next_library(&record, a, &path)) {
    }
    (void)python_abi_of_symbol(text);
    arena_free(a);
    return 0;
}
