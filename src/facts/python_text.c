// SPDX-License-Identifier: Apache-2.0
/* Text formats of Python environments. Everything works on views; results are arena copies. */
#include "facts/python_text.h"

#include <ctype.h>
#include <string.h>

enum {
    MAX_NAME = 200,
    MAX_VALUE = 4096
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *py_normal_name(struct arena *a, struct str name)
{
    struct strbuf out;
    strbuf_init(&out, a, MAX_NAME);
    bool gap = false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (c == '-' || c == '_' || c == '.') {
            gap = out.n != 0;
            continue;
        }
        if (gap) {
            strbuf_addc(&out, '-');
            gap = false;
        }
        strbuf_addc(&out, (char)tolower((unsigned char)c));
    }
    return out.p;
}

static size_t rfind_char(struct str s, char c)
{
    for (size_t i = s.n; i != 0; i--) {
        if (s.p[i - 1] == c) {
            return i - 1;
        }
    }
    return SIZE_MAX;
}

bool py_split_dist_folder(struct arena *a, struct str folder, const char **ret_name,
                          const char **ret_version)
{
    if (folder.n > MAX_NAME * 2) {
        return false;
    }
    if (str_ends(folder, ".dist-info")) {
        folder = str_slice(folder, 0, folder.n - strlen(".dist-info"));
    } else if (str_ends(folder, ".egg-info")) {
        folder = str_slice(folder, 0, folder.n - strlen(".egg-info"));
        size_t python = str_find(folder, "-py", 0);
        if (python != SIZE_MAX && python + 3 < folder.n &&
            isdigit((unsigned char)folder.p[python + 3])) {
            folder = str_slice(folder, 0, python);
        }
    } else {
        return false;
    }
    size_t dash = rfind_char(folder, '-');
    if (dash == SIZE_MAX) { /* an egg-info without version: "foo.egg-info" */
        *ret_name = py_normal_name(a, folder);
        *ret_version = NULL;
        return (*ret_name)[0] != '\0';
    }
    *ret_name = py_normal_name(a, str_slice(folder, 0, dash));
    *ret_version = str_dup(a, str_slice(folder, dash + 1, folder.n));
    return (*ret_name)[0] != '\0';
}

/* The value of "Name: value" when the line is that header. */
static bool header_value(struct str line, const char *name, struct str *ret_value)
{
    size_t n = strlen(name);
    if (line.n <= n || line.p[n] != ':' || strncasecmp(line.p, name, n) != 0) {
        return false;
    }
    *ret_value = str_trim(str_slice(line, n + 1, line.n));
    return ret_value->n <= MAX_VALUE;
}

const char *py_header(struct arena *a, struct str text, const char *name)
{
    struct str line;
    struct str value;
    while (str_cut_line(&text, &line) && line.n != 0) {
        if (header_value(line, name, &value)) {
            return str_dup(a, value);
        }
    }
    return NULL;
}

/* "torch (==2.9.0) ; platform_system == 'Linux'" -> "2.9.0" when it names `package`. */
static const char *pinned(struct arena *a, struct str requirement, const char *package)
{
    size_t n = 0;
    while (n < requirement.n &&
           (is_word(requirement.p[n]) || requirement.p[n] == '-' || requirement.p[n] == '.')) {
        n++;
    }
    if (strcmp(py_normal_name(a, str_slice(requirement, 0, n)), package) != 0) {
        return NULL;
    }
    size_t semicolon = str_find_char(requirement, ';', n);
    if (semicolon != SIZE_MAX) {
        if (str_has(str_slice(requirement, semicolon, requirement.n), "extra")) {
            return NULL;
        }
        requirement = str_slice(requirement, 0, semicolon);
    }
    size_t at = str_find(requirement, "==", n);
    if (at == SIZE_MAX) {
        return NULL;
    }
    at += requirement.n > at + 2 && requirement.p[at + 2] == '=' ? 3 : 2;
    while (at < requirement.n && requirement.p[at] == ' ') {
        at++;
    }
    size_t end = at;
    while (end < requirement.n && strchr(" ,)*;", requirement.p[end]) == NULL) {
        end++;
    }
    while (end > at && requirement.p[end - 1] == '.') { /* "2.9.*" pins 2.9 */
        end--;
    }
    return end != at ? str_dup(a, str_slice(requirement, at, end)) : NULL;
}

const char *py_pinned_requirement(struct arena *a, struct str metadata, const char *package)
{
    struct str line;
    struct str value;
    while (str_cut_line(&metadata, &line) && line.n != 0) {
        if (header_value(line, "Requires-Dist", &value)) {
            const char *release = pinned(a, value, package);
            if (release != NULL) {
                return release;
            }
        }
    }
    return NULL;
}

/* A literal at the start of `s`; trailing comments are allowed, anything else is not. */
static struct py_literal literal(struct arena *a, struct str s)
{
    struct py_literal none = {PY_MISSING, NULL};
    s = str_trim(s);
    if (s.n >= 2 && (s.p[0] == '\'' || s.p[0] == '"')) {
        size_t end = str_find_char(s, s.p[0], 1);
        if (end == SIZE_MAX || end > MAX_VALUE) {
            return none;
        }
        struct str rest = str_trim(str_slice(s, end + 1, s.n));
        struct str body = str_slice(s, 1, end);
        if ((rest.n != 0 && rest.p[0] != '#') || memchr(body.p, '\\', body.n) != NULL) {
            return none;
        }
        return (struct py_literal){PY_STRING, str_dup(a, body)};
    }
    size_t comment = str_find_char(s, '#', 0);
    s = str_trim(str_slice(s, 0, comment == SIZE_MAX ? s.n : comment));
    if (str_is(s, "None")) {
        return (struct py_literal){PY_NONE, NULL};
    }
    if (str_is(s, "True") || str_is(s, "False")) {
        return (struct py_literal){s.n == 4 ? PY_TRUE : PY_FALSE, NULL};
    }
    return none;
}

struct py_literal py_assignment(struct arena *a, struct str text, const char *name)
{
    struct py_literal found = {PY_MISSING, NULL};
    size_t n = strlen(name);
    struct str line;
    while (str_cut_line(&text, &line)) {
        if (line.n <= n || memcmp(line.p, name, n) != 0 || is_word(line.p[n])) {
            continue;
        }
        struct str rest = str_trim(str_slice(line, n, line.n));
        if (rest.n != 0 && rest.p[0] == ':') { /* an annotation */
            size_t equals = str_find_char(rest, '=', 0);
            if (equals == SIZE_MAX) {
                continue;
            }
            rest = str_slice(rest, equals, rest.n);
        }
        if (rest.n < 2 || rest.p[0] != '=' || rest.p[1] == '=') {
            continue;
        }
        struct py_literal value = literal(a, str_slice(rest, 1, rest.n));
        if (value.kind != PY_MISSING) {
            found = value;
        }
    }
    return found;
}

const char *py_ini_value(struct arena *a, struct str text, const char *key)
{
    size_t n = strlen(key);
    struct str line;
    while (str_cut_line(&text, &line)) {
        line = str_trim(line);
        if (line.n <= n || strncasecmp(line.p, key, n) != 0) {
            continue;
        }
        struct str rest = str_trim(str_slice(line, n, line.n));
        if (rest.n == 0 || (rest.p[0] != '=' && rest.p[0] != ':') || rest.n > MAX_VALUE) {
            continue;
        }
        return str_dup(a, str_trim(str_slice(rest, 1, rest.n)));
    }
    return NULL;
}

bool py_is_library_name(struct str name)
{
    size_t at = str_find(name, ".so", 0);
    while (at != SIZE_MAX) {
        if (at + 3 == name.n) {
            return at != 0;
        }
        if (name.p[at + 3] == '.') {
            size_t i = at + 4;
            while (i < name.n && (isdigit((unsigned char)name.p[i]) || name.p[i] == '.')) {
                i++;
            }
            if (i == name.n && i > at + 4) {
                return at != 0;
            }
        }
        at = str_find(name, ".so", at + 3);
    }
    return false;
}

bool py_record_next_library(struct str *record, struct arena *a, const char **ret_path)
{
    struct str line;
    while (str_cut_line(record, &line)) {
        struct str path;
        if (line.n != 0 && line.p[0] == '"') {
            size_t end = str_find_char(line, '"', 1);
            path = str_slice(line, 1, end == SIZE_MAX ? line.n : end);
        } else {
            size_t comma = str_find_char(line, ',', 0);
            path = str_slice(line, 0, comma == SIZE_MAX ? line.n : comma);
        }
        if (path.n == 0 || path.n > MAX_VALUE || path.p[0] == '/' || str_has(path, "..") ||
            memchr(path.p, '\0', path.n) != NULL) {
            continue;
        }
        size_t slash = rfind_char(path, '/');
        if (py_is_library_name(str_slice(path, slash == SIZE_MAX ? 0 : slash + 1, path.n))) {
            *ret_path = str_dup(a, path);
            return true;
        }
    }
    return false;
}
