// SPDX-License-Identifier: Apache-2.0
/* Trial compilations. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <hs.h>
#include <pcre2.h>
#include <stdlib.h>

enum status regex_check_scanner(const char *regex, bool *ret_empty, struct err *err)
{
    hs_expr_info_t *info = NULL;
    hs_compile_error_t *error = NULL;
    if (hs_expression_info(regex, HS_FLAG_MULTILINE, &info, &error) != HS_SUCCESS) {
        enum status status = err_set(err, ST_FORMAT, "%.300s",
                                     error != NULL ? error->message : "unknown reason");
        hs_free_compile_error(error);
        return status;
    }
    *ret_empty = info->min_width == 0;
    free(info); /* from the library's default allocator, which is malloc */
    return ST_OK;
}

enum status regex_check(const char *regex, struct err *err)
{
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, 0, &error, &offset,
                                     NULL);
    if (code == NULL) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        return err_set(err, ST_FORMAT, "%s at character %zu", (char *)message, (size_t)offset + 1);
    }
    pcre2_code_free(code);
    return ST_OK;
}
