// SPDX-License-Identifier: Apache-2.0
/* One reader per form; the first that knows the line takes it. Start at trace_frame_read(). */
#include "diagnosis/traceback_frame.h"

#include <ctype.h>
#include <string.h>

#define BOX_SIDE "\xe2\x94\x82" /* │ */
#define BOX_TOP  "\xe2\x95\xad" /* ╭ */
#define BOX_END  "\xe2\x95\xb0" /* ╰ */
#define BOX_MARK "\xe2\x9d\xb1" /* ❱ */

static void put(char *to, size_t size, struct str s)
{
    size_t n = s.n < size ? s.n : size - 1;
    for (size_t i = 0; i < n; i++) {
        to[i] = s.p[i] != '\0' ? s.p[i] : ' ';
    }
    to[n] = '\0';
}

#define PUT(to, s) put((to), sizeof(to), (s))

static bool is_number(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!isdigit((unsigned char)s.p[i])) {
            return false;
        }
    }
    return s.n != 0 && s.n < 9;
}

/* "f(a, b)" -> "f" */
static struct str bare_name(struct str function)
{
    size_t paren = str_find_char(function, '(', 0);
    return str_trim(str_slice(function, 0, paren == SIZE_MAX ? function.n : paren));
}

static void begin(struct trace_frame *f, struct str file, struct str line, struct str function)
{
    *f = (struct trace_frame){0};
    PUT(f->file, file);
    PUT(f->line, str_trim(line));
    PUT(f->function, function);
}

/* Where the path of a head begins: 6, or 0 where a paste begins in its midst: 'x.py", line 12, in f'. */
static size_t path_start(struct str s)
{
    if (str_starts(s, "File \"")) {
        return 6;
    }
    size_t quote = str_find_char(s, '"', 0);
    bool cut = quote > 3 && quote != SIZE_MAX && str_ends(str_slice(s, 0, quote), ".py") &&
               str_starts(str_slice(s, quote, s.n), "\", line ");
    return cut ? 0 : SIZE_MAX;
}

bool trace_frame_opens(struct str body)
{
    return path_start(str_trim(body)) != SIZE_MAX;
}

/* '  File "x.py", line 12, in name' */
static bool python_head(struct trace_frame *f, struct str body)
{
    struct str s = str_trim(body);
    size_t start = path_start(s);
    size_t quote = start != SIZE_MAX ? str_find_char(s, '"', start) : SIZE_MAX;
    if (quote == SIZE_MAX) {
        return false;
    }
    size_t in = str_find(s, ", in ", quote);
    size_t line = str_find(s, ", line ", quote);
    size_t end = in != SIZE_MAX ? in : s.n;
    begin(f, str_slice(s, start, quote), str_slice(s, line != SIZE_MAX ? line + 7 : end, end),
          str_slice(s, in != SIZE_MAX ? in + 5 : s.n, s.n));
    return true;
}

/* "Cell In[18], line 3" */
static bool cell_head(struct trace_frame *f, struct str s)
{
    size_t line = str_find(s, ", line ", 0);
    if (!(str_starts(s, "Cell In[") || str_starts(s, "Cell In [") || str_starts(s, "Input In [")) ||
        line == SIZE_MAX) {
        return false;
    }
    struct str number = str_slice(s, line + 7, s.n);
    size_t end = 0;
    while (end < number.n && isdigit((unsigned char)number.p[end])) {
        end++;
    }
    begin(f, str_slice(s, 0, line), str_slice(number, 0, end), STR("<module>"));
    return end != 0;
}

/* Notebooks write paths as links: "[/x/module.py](https://…)". */
static struct str unlink_path(struct str path)
{
    size_t close = str_starts(path, "[") ? str_find(path, "](", 0) : SIZE_MAX;
    return close != SIZE_MAX ? str_slice(path, 1, close) : path;
}

/* "File ~/x.py:12, in f(a)", "~/x.py in f(a)", "<ipython-input-4-49> in f(a)", "x.py in f(a)" */
static bool ipython_head(struct trace_frame *f, struct str s)
{
    if (cell_head(f, s)) {
        return true;
    }
    bool named = str_starts(s, "File ");
    s = named ? str_slice(s, 5, s.n) : s;
    bool comma = named && str_find(s, ", in ", 0) != SIZE_MAX;
    size_t in = str_find(s, comma ? ", in " : " in ", 0);
    struct str path = unlink_path(str_slice(s, 0, in == SIZE_MAX ? (named ? s.n : 0) : in));
    struct str function = in == SIZE_MAX ? STR("<module>")
                                         : bare_name(str_slice(s, in + (comma ? 5 : 4), s.n));
    size_t colon = path.n;
    while (colon != 0 && path.p[colon - 1] != ':') {
        colon--;
    }
    struct str line = str_slice(path, colon, path.n);
    struct str file = colon != 0 && is_number(line) ? str_slice(path, 0, colon - 1) : path;
    bool a_path = str_ends(file, ".py") || str_starts(file, "<ipython-input-") ||
                  (named && str_is(file, "<string>"));
    if (!a_path || (named && file.n == path.n) ||
        (!named && str_find_char(file, ' ', 0) != SIZE_MAX)) {
        return false;
    }
    begin(f, file, file.n != path.n ? line : (struct str){0}, function);
    return true;
}

/* "---> 12     loss.backward()" */
static bool arrow_code(struct trace_frame *f, struct str s)
{
    size_t dash = 0;
    while (dash < s.n && s.p[dash] == '-') {
        dash++;
    }
    if (dash < 1 || dash + 2 >= s.n || s.p[dash] != '>' || s.p[dash + 1] != ' ') {
        return false;
    }
    size_t end = dash + 2;
    while (end < s.n && isdigit((unsigned char)s.p[end])) {
        end++;
    }
    struct str number = str_slice(s, dash + 2, end);
    if (!is_number(number)) {
        return false;
    }
    PUT(f->line, number);
    PUT(f->code, str_trim(str_slice(s, end, s.n)));
    return true;
}

/* What stands between the sides of Rich's box. */
static struct str box_content(struct str s)
{
    s = str_slice(s, strlen(BOX_SIDE), s.n);
    s = str_trim(s);
    if (str_ends(s, BOX_SIDE)) {
        s = str_slice(s, 0, s.n - strlen(BOX_SIDE));
    }
    return str_trim(s);
}

static bool rich_head(struct frame_reader *r, struct trace_frame *f, struct str s)
{
    char whole[FRAME_PATH_MAX * 2];
    str_print(whole, sizeof whole, "%s%.*s", r->broken,
              (int)(s.n < FRAME_PATH_MAX ? s.n : FRAME_PATH_MAX), s.p);
    struct str text = str_of(whole);
    size_t in = str_find(text, " in ", 0);
    struct str path = str_slice(text, 0, in == SIZE_MAX ? 0 : in);
    size_t colon = path.n;
    while (colon != 0 && path.p[colon - 1] != ':') {
        colon--;
    }
    struct str line = str_slice(path, colon, path.n);
    if (colon < 2 || !is_number(line)) {
        return false;
    }
    begin(f, str_slice(path, 0, colon - 1), line, bare_name(str_slice(text, in + 4, text.n)));
    r->broken[0] = '\0';
    return true;
}

static enum frame_part rich_line(struct frame_reader *r, struct trace_frame *f, struct str body)
{
    struct str s = box_content(body);
    if (str_starts(s, BOX_MARK)) {
        struct str rest = str_trim(str_slice(s, strlen(BOX_MARK), s.n));
        size_t side = str_find(rest, BOX_SIDE, 0);
        size_t code = side != SIZE_MAX ? side + strlen(BOX_SIDE) : 0;
        while (str_starts(str_trim(str_slice(rest, code, rest.n)),
                          BOX_SIDE)) { /* guides of indentation */
            code = str_find(rest, BOX_SIDE, code) + strlen(BOX_SIDE);
        }
        PUT(f->code, str_trim(str_slice(rest, code, rest.n)));
        return FRAME_CODE;
    }
    if (rich_head(r, f, s)) {
        return FRAME_HEAD;
    }
    bool path = str_starts(s, "/") || (s.n > 2 && isalpha((unsigned char)s.p[0]) && s.p[1] == ':');
    if (path && r->broken[0] == '\0' && str_find_char(s, ' ', 0) == SIZE_MAX) {
        PUT(r->broken, s);
    } else if (s.n != 0) {
        r->broken[0] = '\0';
    }
    return FRAME_OTHER;
}

/* Python 3.11 marks the place in the line above with "^" and "~". */
static bool is_mark(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '^' && s.p[i] != '~') {
            return false;
        }
    }
    return true;
}

/* "4 frames": what Colab folds away; frames of packages as a rule. */
static bool folded_head(struct trace_frame *f, struct str s)
{
    size_t end = str_find(s, " frames", 0);
    if (end == SIZE_MAX || end + 7 != s.n || !is_number(str_slice(s, 0, end))) {
        return false;
    }
    begin(f, STR("<folded>"), (struct str){0}, (struct str){0});
    return true;
}

enum frame_part trace_frame_read(struct frame_reader *r, struct trace_frame *f, struct str body)
{
    bool below_head = r->python_head;
    r->python_head = python_head(f, body);
    if (r->python_head) {
        return FRAME_HEAD;
    }
    struct str s = str_trim(body);
    if (folded_head(f, s)) {
        return FRAME_HEAD;
    }
    if (str_starts(body, BOX_SIDE)) {
        return rich_line(r, f, body);
    }
    if (str_starts(body, BOX_TOP) || str_starts(body, BOX_END)) {
        return FRAME_OTHER;
    }
    if (arrow_code(f, s)) {
        return FRAME_CODE;
    }
    if (body.p[0] == ' ' || body.p[0] == '\t') {
        if (below_head && !is_mark(s)) {
            PUT(f->code, s);
            return FRAME_CODE;
        }
        /* IPython's plain form indents its heads as Python does, the source line below them. */
        bool plain = str_starts(s, "File ") || str_starts(s, "Cell In[");
        r->python_head = plain && ipython_head(f, s);
        return r->python_head ? FRAME_HEAD : FRAME_OTHER;
    }
    return ipython_head(f, s) ? FRAME_HEAD : FRAME_NONE;
}

bool trace_frame_is_library(const char *file)
{
    static const char *const parts[] = {"site-packages",
                                        "dist-packages",
                                        "/lib/python",
                                        "/lib64/python",
                                        "\\lib\\",
                                        "\\Lib\\",
                                        "<frozen ",
                                        "conda/lib/",
                                        "<string>",
                                        "<__array_function__",
                                        "unsloth_compiled_cache",
                                        "<folded>"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (strstr(file, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}
