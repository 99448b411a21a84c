// SPDX-License-Identifier: Apache-2.0
/* See digit_blind.h: looks for literal digits, classes of some digits, and back references. */
#include "diagnosis/digit_blind.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum {
    ALL_DIGITS = (1 << 10) - 1
};

/* Behind a backslash: moves *at behind the escape. False when it can mean a digit or is unknown. */
static bool escape_is_blind(const char **at, unsigned *digits)
{
    char c = *(*at)++;
    if (c == 'd' || c == 'w' || c == 'S') {
        *digits |= ALL_DIGITS;
    }
    if (c == '\0' || (isalnum((unsigned char)c) && strchr("dDwWsSbBnrtfaeh", c) == NULL)) {
        return false; /* \x31, \1, \Q1\E and what else there is */
    }
    return true;
}

/* Behind '[': moves *at behind ']'. True when the class has all digits or none. */
static bool class_is_blind(const char **at)
{
    const char *p = *at;
    unsigned digits = 0;
    p += *p == '^';
    for (bool first = true; *p != ']' || first; first = false) {
        if (*p == '\0' || (p[0] == '[' && p[1] == ':')) {
            return false;
        }
        if (*p == '\\') {
            p++;
            if (!escape_is_blind(&p, &digits)) {
                return false;
            }
            if (p[0] == '-' && p[1] != ']') {
                return false; /* a range that begins with an escape */
            }
            continue;
        }
        unsigned char low = (unsigned char)*p++;
        unsigned char high = low;
        if (p[0] == '-' && p[1] != ']' && p[1] != '\0') {
            if (p[1] == '\\') {
                return false;
            }
            high = (unsigned char)p[1];
            p += 2;
        }
        for (unsigned c = '0'; c <= '9'; c++) {
            digits |= c >= low && c <= high ? 1u << (c - '0') : 0;
        }
    }
    *at = p + 1;
    return digits == 0 || digits == ALL_DIGITS;
}

/* Behind '(': moves *at behind "?<name>", "?P<name>"; other heads have no digits in them. */
static bool group_is_blind(const char **at)
{
    const char *p = *at;
    if (p[0] != '?') {
        return p[0] != '*'; /* (*VERB) */
    }
    p += p[1] == 'P' ? 2 : 1;
    if (*p == '<' && p[1] != '=' && p[1] != '!') {
        p = strchr(p, '>');
        if (p == NULL) {
            return false;
        }
        *at = p + 1;
        return true;
    }
    return *p != '\0' && strchr("imsJ-:=!<>|#", *p) != NULL; /* not a recursion or a condition */
}

bool regex_is_digit_blind(const char *regex)
{
    const char *p = regex;
    while (*p != '\0') {
        char c = *p++;
        unsigned digits;
        if (c >= '0' && c <= '9') {
            return false;
        }
        if ((c == '\\' && !escape_is_blind(&p, &digits)) || (c == '[' && !class_is_blind(&p)) ||
            (c == '(' && !group_is_blind(&p))) {
            return false;
        }
        if (c == '{' && isdigit((unsigned char)*p)) { /* a count */
            while (isdigit((unsigned char)*p) || *p == ',') {
                p++;
            }
            if (*p != '}') {
                return false;
            }
        }
    }
    return true;
}
