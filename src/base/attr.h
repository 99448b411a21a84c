// SPDX-License-Identifier: Apache-2.0
/*
 * Compiler attributes and the two macros everybody needs. Nothing else belongs here.
 */
#ifndef ASSAY_BASE_ATTR_H
#define ASSAY_BASE_ATTR_H

#define MUST_USE                __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#define RETURNS_NONNULL         __attribute__((returns_nonnull))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
