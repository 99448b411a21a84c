// SPDX-License-Identifier: Apache-2.0
/*
 * Pickle opcodes that push a constant: numbers, texts, bytes, in the binary forms and in the text
 * forms of protocol 0, whose escapes are a favourite way to hide a name.
 */
#include <string.h>

#include "model/pickle_machine.h"

static enum status push_new(struct pickle_machine *m, enum pickle_kind kind,
                            struct pickle_value **ret, struct err *err)
{
    TRY(pickle_new(m, kind, ret, err));
    return pickle_push(m, *ret, err);
}

static enum status push_int(struct pickle_machine *m, int64_t value, struct err *err)
{
    struct pickle_value *v;
    TRY(push_new(m, PICKLE_INT, &v, err));
    v->integer = value;
    return ST_OK;
}

static enum status push_text(struct pickle_machine *m, enum pickle_kind kind, struct str text,
                             struct err *err)
{
    struct pickle_value *v;
    TRY(push_new(m, kind, &v, err));
    v->text = text;
    return ST_OK;
}

static enum status op_single(struct pickle_machine *m, unsigned arg, struct err *err)
{
    return pickle_push(m, arg == 0 ? &m->none : arg == 1 ? &m->yes : &m->no, err);
}

/* BININT, BININT1, BININT2: arg is the size; only four bytes carry a sign. */
static enum status op_int(struct pickle_machine *m, unsigned arg, struct err *err)
{
    uint64_t n;
    TRY(pickle_number(m, arg, &n, err));
    return push_int(m, arg == 4 ? (int32_t)(uint32_t)n : (int64_t)n, err);
}

/* LONG1, LONG4: arg is the size of the length. */
static enum status op_long(struct pickle_machine *m, unsigned arg, struct err *err)
{
    uint64_t n;
    struct str body;
    TRY(pickle_number(m, arg, &n, err));
    if (arg == 4 && n > INT32_MAX) {
        return err_set(err, ST_FORMAT, "a number of negative length");
    }
    TRY(pickle_take(m, n, &body, err));
    if (n > 8) {
        return push_text(m, PICKLE_LONG, body, err);
    }
    uint64_t value = 0;
    for (uint64_t i = 0; i < n; i++) {
        value |= (uint64_t)(unsigned char)body.p[i] << (8 * i);
    }
    if (n > 0 && n < 8 && ((unsigned char)body.p[n - 1] & 0x80) != 0) {
        value |= UINT64_MAX << (8 * n);
    }
    return push_int(m, (int64_t)value, err);
}

static enum status op_real(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str body;
    TRY(pickle_take(m, 8, &body, err));
    uint64_t bits = bytes_be(body.p, 8);
    struct pickle_value *v;
    TRY(push_new(m, PICKLE_REAL, &v, err));
    memcpy(&v->real, &bits, sizeof bits);
    return ST_OK;
}

/* A counted text; arg is the size of its length, the kind sits above it. */
static enum status op_counted(struct pickle_machine *m, unsigned arg, struct err *err)
{
    uint64_t n;
    struct str body;
    TRY(pickle_number(m, arg & 0xf, &n, err));
    TRY(pickle_take(m, n, &body, err));
    return push_text(m, (enum pickle_kind)(arg >> 4), body, err);
}

/* INT of protocol 0: "00" and "01" are booleans. */
static enum status op_text_int(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str line;
    TRY(pickle_line(m, &line, err));
    if (str_is(line, "00") || str_is(line, "01")) {
        return pickle_push(m, line.p[1] == '1' ? &m->yes : &m->no, err);
    }
    line = str_ends(line, "L") ? str_slice(line, 0, line.n - 1) : line;
    int64_t value;
    if (str_to_i64(line, 10, &value) == ST_OK) {
        return push_int(m, value, err);
    }
    for (size_t i = line.n > 0 && (line.p[0] == '-' || line.p[0] == '+'); i < line.n; i++) {
        if (line.p[i] < '0' || line.p[i] > '9') {
            return err_set(err, ST_FORMAT, "\"%s\" is no whole number", issue_text(m->arena, line));
        }
    }
    return push_text(m, PICKLE_LONG, line, err);
}

static enum status op_text_real(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str line;
    double value;
    TRY(pickle_line(m, &line, err));
    if (str_to_double(line, &value) != ST_OK) {
        return err_set(err, ST_FORMAT, "\"%s\" is no number", issue_text(m->arena, line));
    }
    struct pickle_value *v;
    TRY(push_new(m, PICKLE_REAL, &v, err));
    v->real = value;
    return ST_OK;
}

/* Value of up to `n` hexadecimal digits; false when one is missing. */
static bool hex_digits(struct str s, size_t at, size_t n, uint32_t *ret)
{
    uint32_t value = 0;
    if (at > s.n || n > s.n - at) {
        return false;
    }
    for (size_t i = at; i < at + n; i++) {
        char c = s.p[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 99;
        if (digit == 99) {
            return false;
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

static void add_utf8(struct strbuf *out, uint32_t c)
{
    if (c < 0x80) {
        strbuf_addc(out, (char)c);
    } else if (c < 0x800) {
        strbuf_addc(out, (char)(0xc0 | c >> 6));
        strbuf_addc(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        strbuf_addc(out, (char)(0xe0 | c >> 12));
        strbuf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        strbuf_addc(out, (char)(0x80 | (c & 0x3f)));
    } else {
        strbuf_addc(out, (char)(0xf0 | (c >> 18 & 7)));
        strbuf_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
        strbuf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        strbuf_addc(out, (char)(0x80 | (c & 0x3f)));
    }
}

/* UNICODE: raw-unicode-escape, in which only \u and \U are escapes and bytes are Latin-1. */
static enum status op_text_unicode(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str line;
    TRY(pickle_line(m, &line, err));
    struct strbuf out;
    strbuf_init(&out, m->arena, line.n * 2 + 1);
    for (size_t i = 0; i < line.n; i++) {
        uint32_t c;
        char next = line.p[i] == '\\' && i + 1 < line.n ? line.p[i + 1] : 0;
        size_t digits = next == 'u' ? 4 : next == 'U' ? 8 : 0;
        if (digits > 0 && hex_digits(line, i + 2, digits, &c)) {
            add_utf8(&out, c);
            i += 1 + digits;
        } else if (next == '\\') {
            strbuf_addz(&out, "\\\\");
            i++;
        } else {
            add_utf8(&out, (unsigned char)line.p[i]);
        }
    }
    return push_text(m, PICKLE_TEXT, strbuf_str(&out), err);
}

/* One escape of a Python string literal at s.p[at], behind the backslash; returns bytes used. */
static size_t unescape(struct str s, size_t at, struct strbuf *out)
{
    static const char from[] = "nrtabfv\\'\"";
    static const char to[] = "\n\r\t\a\b\f\v\\'\"";
    const char *simple = strchr(from, s.p[at]);
    uint32_t c;
    if (s.p[at] != '\0' && simple != NULL) {
        strbuf_addc(out, to[simple - from]);
        return 1;
    }
    if (s.p[at] == 'x' && hex_digits(s, at + 1, 2, &c)) {
        strbuf_addc(out, (char)c);
        return 3;
    }
    size_t n = 0;
    for (c = 0; n < 3 && at + n < s.n && s.p[at + n] >= '0' && s.p[at + n] <= '7'; n++) {
        c = c << 3 | (uint32_t)(s.p[at + n] - '0');
    }
    if (n > 0) {
        strbuf_addc(out, (char)c);
        return n;
    }
    strbuf_addc(out, '\\');
    return 0;
}

/* STRING: a Python literal in quotes. */
static enum status op_text_string(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str line;
    TRY(pickle_line(m, &line, err));
    line = str_trim(line);
    if (line.n < 2 || (line.p[0] != '\'' && line.p[0] != '"') || line.p[line.n - 1] != line.p[0]) {
        return err_set(err, ST_FORMAT, "a text without its quotes");
    }
    struct str inner = str_slice(line, 1, line.n - 1);
    struct strbuf out;
    strbuf_init(&out, m->arena, inner.n + 1);
    for (size_t i = 0; i < inner.n;) {
        if (inner.p[i] == '\\' && i + 1 < inner.n) {
            i += 1 + unescape(inner, i + 1, &out);
        } else {
            strbuf_addc(&out, inner.p[i++]);
        }
    }
    return push_text(m, PICKLE_TEXT, strbuf_str(&out), err);
}

static enum status op_buffer(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *v;
    if (arg == 1) { /* READONLY_BUFFER changes the one on top */
        return pickle_top(m, &v, err);
    }
    pickle_issue(m, SEVERITY_WARNING, "pickle-out-of-band", "Data outside of the pickle",
                 "it asks for an out-of-band buffer, which a file does not carry");
    return push_new(m, PICKLE_BUFFER, &v, err);
}

#define TEXT(size)  (unsigned)(PICKLE_TEXT << 4 | (size))
#define BYTES(size) (unsigned)(PICKLE_BYTES << 4 | (size))

const struct pickle_op *pickle_constant_op(unsigned char code)
{
    static const struct pickle_op ops[256] = {
        ['N'] = {"NONE", op_single, 0},
        [0x88] = {"NEWTRUE", op_single, 1},
        [0x89] = {"NEWFALSE", op_single, 2},
        ['J'] = {"BININT", op_int, 4},
        ['K'] = {"BININT1", op_int, 1},
        ['M'] = {"BININT2", op_int, 2},
        [0x8a] = {"LONG1", op_long, 1},
        [0x8b] = {"LONG4", op_long, 4},
        ['G'] = {"BINFLOAT", op_real, 0},
        ['T'] = {"BINSTRING", op_counted, TEXT(4)},
        ['U'] = {"SHORT_BINSTRING", op_counted, TEXT(1)},
        ['X'] = {"BINUNICODE", op_counted, TEXT(4)},
        [0x8c] = {"SHORT_BINUNICODE", op_counted, TEXT(1)},
        [0x8d] = {"BINUNICODE8", op_counted, TEXT(8)},
        ['B'] = {"BINBYTES", op_counted, BYTES(4)},
        ['C'] = {"SHORT_BINBYTES", op_counted, BYTES(1)},
        [0x8e] = {"BINBYTES8", op_counted, BYTES(8)},
        [0x96] = {"BYTEARRAY8", op_counted, BYTES(8)},
        ['I'] = {"INT", op_text_int, 0},
        ['L'] = {"LONG", op_text_int, 0},
        ['F'] = {"FLOAT", op_text_real, 0},
        ['V'] = {"UNICODE", op_text_unicode, 0},
        ['S'] = {"STRING", op_text_string, 0},
        [0x97] = {"NEXT_BUFFER", op_buffer, 0},
        [0x98] = {"READONLY_BUFFER", op_buffer, 1},
    };
    return ops[code].name != NULL ? &ops[code] : NULL;
}
