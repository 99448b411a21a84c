// SPDX-License-Identifier: Apache-2.0
/* METADATA, WHEEL, RECORD, version.py, pyvenv.cfg and names of metadata folders. */
#include <stdint.h>

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
        (void)python_torch_build(a, version);
    }
    (void)py_header(a, text, "Version");
    (void)py_pinned_requirement(a, text, "torch");
    (void)py_ini_value(a, text, "home");
    static const char *const names[] = {"__version__", "hip", "cuda"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct py_literal value = py_assignment(a, text, names[i]);
        if (value.kind == PY_STRING) {
            (void)python_torch_build(a, value.string);
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
