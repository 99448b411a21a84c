// SPDX-License-Identifier: Apache-2.0
/* Names of the finding record. */
#include "base/finding.h"

const char *severity_name(enum severity s)
{
    static const char *const names[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "ok",       [SEVERITY_NOTE] = "note",       [SEVERITY_WARNING] = "warning",
        [SEVERITY_ERROR] = "error", [SEVERITY_UNKNOWN] = "unknown",
    };
    return s < SEVERITY_COUNT ? names[s] : "?";
}
