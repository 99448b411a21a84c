// SPDX-License-Identifier: Apache-2.0
/* Which targets run on which ISA, by name alone; the table of targets belongs to facts/. */
#include "facts/amdgpu_target.h"
#include "knowledge/expr.h"

/* The name without target features: "gfx90a:xnack-" is "gfx90a". */
static struct str base_name(const char *target)
{
    struct str s = str_of(target);
    return str_trim(str_slice(s, 0, str_find_char(s, ':', 0)));
}

bool gfx_covers(const char *have, const char *gfx)
{
    struct str code = base_name(have);
    struct str gpu = base_name(gfx);
    if (code.n == 0 || gpu.n == 0) {
        return false;
    }
    /* Portable code, which the run-time compiles for whatever GPU is there. */
    if (str_eq(code, gpu) || (str_is(code, "amdgcnspirv") && str_starts(gpu, "gfx"))) {
        return true;
    }
    const char *generic = amdgpu_target_generic(gfx);
    return generic != NULL && str_is(code, generic);
}

bool gfx_same_family(const char *a, const char *b)
{
    struct str x = base_name(a);
    struct str y = base_name(b);
    if (x.n < 6 || y.n < 6 || !str_starts(x, "gfx") || !str_starts(y, "gfx")) {
        return false;
    }
    return str_eq(str_slice(x, 0, x.n - 2), str_slice(y, 0, y.n - 2));
}
