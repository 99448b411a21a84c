// SPDX-License-Identifier: Apache-2.0
/* Start at unwrap_line(). Everything shrinks: what is taken away is longer than what is put before. */
#include "diagnosis/unwrap.h"

#include <ctype.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/json_scan.h"

enum {
    LOOK_AT = 16 * 1024,
    LOOK_LINES = 12,
    TAG_MAX = 400
};

/* Members of a JSON line that matter; raw texts between quotes, n 0 when absent. */
struct packed {
    struct str text;
    struct str time;
    bool kernel;
};

/* The content of a JSON string value. */
static bool as_string(struct str value, struct str *ret_text)
{
    if (value.n < 2 || value.p[0] != '"' || value.p[value.n - 1] != '"') {
        return false;
    }
    *ret_text = str_slice(value, 1, value.n - 1);
    return true;
}

static bool is_time_key(struct str key)
{
    return str_is(key, "time") || str_is(key, "timestamp") || str_is(key, "@timestamp") ||
           str_is(key, "ts");
}

/* Which keys a line has. */
struct seen {
    bool log;
    bool journal; /* MESSAGE */
    bool line;
    bool message;
    bool stream;
    bool origin; /* a field that only the journal writes */
    bool number; /* a value that is a number: it may be a metric */
};

static void note_member(struct str key, struct str value, struct packed *p, struct seen *seen)
{
    struct str text;
    bool string = as_string(value, &text);
    seen->number |= value.n != 0 && (isdigit((unsigned char)value.p[0]) || value.p[0] == '-');
    seen->stream |= str_is(key, "stream");
    seen->origin |= str_starts(key, "_") || str_is(key, "SYSLOG_IDENTIFIER");
    if (!string) {
        return;
    }
    if (str_is(key, "log") || str_is(key, "MESSAGE") || str_is(key, "line") ||
        str_is(key, "message") || str_is(key, "msg")) {
        p->text = text;
        seen->log |= str_is(key, "log");
        seen->journal |= str_is(key, "MESSAGE");
        seen->line |= str_is(key, "line");
        seen->message |= str_is(key, "message") || str_is(key, "msg");
    } else if (is_time_key(key) && memchr(text.p, '\\', text.n) == NULL) {
        p->time = text;
    } else if (str_is(key, "_TRANSPORT") || str_is(key, "SYSLOG_IDENTIFIER")) {
        p->kernel |= str_is(text, "kernel");
    }
}

static bool read_packed(struct str line, struct packed *ret_packed)
{
    struct json_scan s;
    struct str key;
    struct str value;
    struct packed p = {0};
    struct seen seen = {0};
    if (line.n == 0 || line.p[0] != '{' || !json_scan_open(&s, line)) {
        return false;
    }
    while (json_scan_next(&s, &key, &value)) {
        note_member(key, value, &p, &seen);
    }
    bool timed = p.time.n != 0;
    bool packed = (seen.log && (seen.stream || timed)) || (seen.journal && seen.origin) ||
                  ((seen.line || seen.message) && timed && !seen.number);
    *ret_packed = p;
    return packed && !s.broken;
}

static enum wrapping json_wrapping(struct str beginning)
{
    struct str line;
    struct packed p;
    int lines = 0;
    int packed = 0;
    while (lines < LOOK_LINES && str_cut_line(&beginning, &line)) {
        if (line.n != 0) {
            lines++;
            packed += read_packed(line, &p);
        }
    }
    return packed * 2 > lines ? WRAPPING_JSON_LINES : WRAPPING_NONE;
}

/* Bytes that a block of code of Markdown puts before a line. */
static size_t code_indent(struct str line)
{
    if (str_starts(line, "    ")) {
        return 4;
    }
    return line.n != 0 && line.p[0] == '\t' ? 1 : 0;
}

static bool is_indented(struct str beginning)
{
    struct str line;
    int lines = 0;
    while (str_cut_line(&beginning, &line)) {
        if (str_trim(line).n == 0) {
            continue;
        }
        if (code_indent(line) == 0) {
            return false;
        }
        lines++;
    }
    return lines > 1;
}

enum wrapping wrapping_of(struct str beginning)
{
    struct str whole = beginning;
    beginning = str_slice(beginning, 0, LOOK_AT);
    struct str start = str_trim(beginning);
    if (start.n == 0) {
        return WRAPPING_NONE;
    }
    if (start.p[0] == '{') {
        bool notebook = str_has(beginning, "\"cell_type\"") || str_has(beginning, "\"nbformat\"");
        return notebook ? WRAPPING_NOTEBOOK : json_wrapping(beginning);
    }
    bool html = start.p[0] == '<' &&
                (str_has(beginning, "</span>") || str_has(beginning, "<pre") ||
                 str_has(beginning, "<html") || str_has(beginning, "<!DOCTYPE"));
    if (html) {
        return WRAPPING_HTML;
    }
    return is_indented(whole) ? WRAPPING_INDENTED : WRAPPING_NONE;
}

static size_t put(char *out, size_t at, struct str s)
{
    memcpy(out + at, s.p, s.n);
    return at + s.n;
}

static size_t copy(struct str line, char *out)
{
    return put(out, 0, line);
}

/* Appends the text of a JSON string; false when its escapes are broken. */
static bool put_json(struct str raw, char *out, size_t *at, struct strbuf *scratch)
{
    strbuf_clear(scratch);
    if (!json_cursor_unescape(scratch, raw) || scratch->truncated || scratch->n > raw.n) {
        return false;
    }
    struct str text = strbuf_str(scratch);
    while (text.n != 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r')) {
        text.n--;
    }
    for (size_t i = 0; i < text.n; i++) {
        out[(*at)++] = text.p[i] == '\n' ? '\r' : text.p[i];
    }
    return true;
}

static size_t unwrap_json(struct str line, char *out, struct strbuf *scratch)
{
    struct packed p;
    size_t at = 0;
    if (!read_packed(line, &p)) {
        return copy(line, out);
    }
    if (p.time.n != 0 && p.time.n < 40) {
        at = put(out, at, p.time);
        out[at++] = ' ';
    }
    if (p.kernel) {
        at = put(out, at, STR("kernel: "));
    }
    return put_json(p.text, out, &at, scratch) ? at : copy(line, out);
}

/* An item of a list of strings: '   "\u001b[0;31mRuntimeError\u001b[0m: …",' */
static size_t unwrap_notebook(struct str line, char *out, struct strbuf *scratch)
{
    struct str item = str_trim(line);
    struct str text;
    size_t at = 0;
    if (str_ends(item, ",")) {
        item = str_slice(item, 0, item.n - 1);
    }
    bool whole = item.n >= 2 && item.p[0] == '"' && json_scan_value_end(item, 0) == item.n;
    if (!whole || !as_string(item, &text) || !put_json(text, out, &at, scratch)) {
        return copy(line, out);
    }
    return at;
}

/* Names of tags that pages and notebooks put around text. "<module>" and "<0>" are text. */
static bool is_tag(struct str name, bool *ret_breaks)
{
    static const char *const inside[] = {
        "span", "pre",   "code",  "a",     "b",  "i",  "em",      "strong",  "font", "html", "body",
        "head", "style", "table", "tbody", "ul", "ol", "details", "summary", "meta", "title"};
    static const char *const breaks[] = {"br", "p", "div", "li", "tr", "td", "h1", "h2", "h3"};
    *ret_breaks = false;
    for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
        if (str_is(name, breaks[i])) {
            *ret_breaks = true;
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        if (str_is(name, inside[i])) {
            return true;
        }
    }
    return str_starts(name, "!DOCTYPE") || str_starts(name, "!--");
}

/* Length of the tag that `s` begins with, 0 when it is none. */
static size_t tag_length(struct str s, bool *ret_breaks)
{
    size_t close = str_find_char(str_slice(s, 0, TAG_MAX), '>', 0);
    if (close == SIZE_MAX || close < 2) {
        return 0;
    }
    size_t from = 1 + (s.p[1] == '/');
    size_t end = from;
    while (end < close && s.p[end] != ' ' && s.p[end] != '/') {
        end++;
    }
    return is_tag(str_slice(s, from, end), ret_breaks) ? close + 1 : 0;
}

/* The character that an entity stands for, and its length; 0 when it is none that logs hold. */
static char entity(struct str s, size_t *ret_length)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&lt;", '<'},    {"&gt;", '>'},   {"&quot;", '"'}, {"&amp;", '&'},
                 {"&apos;", '\''}, {"&nbsp;", ' '}, {"&#39;", '\''}, {"&#34;", '"'},
                 {"&#x27;", '\''}, {"&#96;", '`'}};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_starts(s, names[i].name)) {
            *ret_length = strlen(names[i].name);
            return names[i].c;
        }
    }
    return '\0';
}

static size_t unwrap_html(struct str line, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < line.n;) {
        struct str rest = str_slice(line, i, line.n);
        bool breaks = false;
        size_t length = rest.p[0] == '<' && rest.n > 1 ? tag_length(rest, &breaks) : 0;
        if (length != 0) {
            if (breaks) {
                out[at++] = '\r';
            }
            i += length;
            continue;
        }
        char c = rest.p[0] == '&' ? entity(rest, &length) : '\0';
        out[at++] = c != '\0' ? c : rest.p[0];
        i += c != '\0' ? length : 1;
    }
    return at;
}

size_t unwrap_line(enum wrapping wrapping, struct str line, char *out, struct strbuf *scratch)
{
    switch (wrapping) {
    case WRAPPING_JSON_LINES: return unwrap_json(line, out, scratch);
    case WRAPPING_NOTEBOOK: return unwrap_notebook(line, out, scratch);
    case WRAPPING_HTML: return unwrap_html(line, out);
    case WRAPPING_INDENTED: return copy(str_slice(line, code_indent(line), line.n), out);
    case WRAPPING_NONE: break;
    }
    return copy(line, out);
}
