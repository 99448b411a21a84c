// SPDX-License-Identifier: Apache-2.0
/*
 * Prefixes are taken off one after another, up to MAX_PARTS, by readers that each know one form.
 * A reader advances the view and returns true, or leaves everything as it was.
 */
#include "diagnosis/prefix.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnosis/prefix_reader.h"

enum {
    MAX_PARTS = 8
};

/* Days since 1970-01-01 of a civil date (Howard Hinnant, "chrono-compatible date algorithms"). */
static double days_of(int y, int m, int d)
{
    y -= m <= 2;
    int era = (y >= 0 ? y : y - 399) / 400;
    int yoe = y - era * 400;
    int doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return (double)era * 146097 + doe - 719468;
}

static bool set_wall(struct reader *r, int y, int m, int d, double seconds)
{
    r->dated = true;
    if (m < 1 || m > 12 || d < 1 || d > 31) {
        return false;
    }
    if (r->out->clock == CLOCK_NONE) { /* the outermost time counts */
        r->out->clock = CLOCK_WALL;
        r->out->time = days_of(y, m, d) * 86400 + seconds;
    }
    return true;
}

/* "10:00:01", "10:00:01.118", "10:00:01,118" at `at`; *ret_end is behind it. */
static bool clock_time(struct str s, size_t at, double *ret_seconds, size_t *ret_end)
{
    int h;
    int m;
    int sec;
    if (digits(s, at, 2, &h) != 2 || char_at(s, at + 2) != ':' || digits(s, at + 3, 2, &m) != 2 ||
        char_at(s, at + 5) != ':' || digits(s, at + 6, 2, &sec) != 2) {
        return false;
    }
    double fraction = 0;
    size_t end = at + 8;
    if (char_at(s, end) == '.' || char_at(s, end) == ',') {
        double unit = 0.1;
        size_t d = end + 1;
        while (isdigit((unsigned char)char_at(s, d))) {
            fraction += (s.p[d] - '0') * unit;
            unit /= 10;
            d++;
        }
        end = d > end + 1 ? d : end;
    }
    *ret_seconds = h * 3600.0 + m * 60.0 + sec + fraction;
    *ret_end = end;
    return true;
}

/* "2025-05-23 09:29:40,911", "2025/05/23T09:29:40.9+00:00": moves *at behind it. */
static bool iso_time(struct reader *r, size_t *at)
{
    struct str s = r->s;
    int y;
    int m;
    int d;
    double seconds;
    size_t end;
    char sep = char_at(s, *at + 4);
    if (digits(s, *at, 4, &y) != 4 || (sep != '-' && sep != '/') ||
        digits(s, *at + 5, 2, &m) != 2 || char_at(s, *at + 7) != sep ||
        digits(s, *at + 8, 2, &d) != 2 ||
        (char_at(s, *at + 10) != ' ' && char_at(s, *at + 10) != 'T') ||
        !clock_time(s, *at + 11, &seconds, &end)) {
        return false;
    }
    int zh;
    int zm;
    if (char_at(s, end) == 'Z') {
        end++;
    } else if ((char_at(s, end) == '+' || char_at(s, end) == '-') &&
               digits(s, end + 1, 2, &zh) == 2) {
        double sign = s.p[end] == '+' ? -1 : 1;
        size_t colon = char_at(s, end + 3) == ':';
        zm = 0;
        size_t more = (size_t)digits(s, end + 3 + colon, 2, &zm);
        seconds += sign * (zh * 3600.0 + (more == 2 ? zm * 60.0 : 0));
        end += 3 + (more == 2 ? colon + 2 : 0);
    }
    if (!set_wall(r, y, m, d, seconds)) {
        return false;
    }
    *at = end;
    return true;
}

static int month_of(struct str s, size_t at)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int i = 0; i < 12; i++) {
        if (s.n >= at + 3 && memcmp(s.p + at, names + 3 * i, 3) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* "host kernel: ", "host train.sh[4411]: " behind the time of journalctl -o short-iso. */
static void skip_journal_tag(struct reader *r)
{
    struct str s = str_slice(r->s, 0, MAX_TAG);
    size_t space = str_find_char(s, ' ', 0);
    size_t colon = str_find(s, ": ", 0);
    if (space == SIZE_MAX || colon == SIZE_MAX || colon < space + 2) {
        return;
    }
    struct str host = str_slice(s, 0, space);
    struct str tag = str_slice(s, space + 1, colon);
    size_t open = str_find_char(tag, '[', 0);
    uint64_t pid;
    bool numbered = open != SIZE_MAX && open != 0 && str_ends(tag, "]") &&
                    str_to_u64(str_slice(tag, open + 1, tag.n - 1), 10, &pid) == ST_OK;
    bool kernel = str_is(tag, "kernel");
    bool plain = str_find_char(tag, ' ', 0) == SIZE_MAX && host.n != 0;
    for (size_t i = 0; i < host.n; i++) {
        plain = plain && (isalnum((unsigned char)host.p[i]) || strchr("-._", host.p[i]) != NULL);
    }
    if (plain && (kernel || numbered)) {
        r->out->kernel |= kernel;
        advance(r, colon + 2);
    }
}

static bool read_iso(struct reader *r)
{
    size_t at = 0;
    if (!isdigit((unsigned char)char_at(r->s, 0)) || !iso_time(r, &at)) {
        return false;
    }
    advance_space(r, at);
    struct str s = r->s;
    if (str_starts(s, "stderr F ") || str_starts(s, "stdout F ") || str_starts(s, "stderr P ") ||
        str_starts(s, "stdout P ")) {
        advance(r, 9); /* the CRI log format of Kubernetes */
    } else if (str_starts(s, ">> ")) {
        advance(r, 3);
    } else if (str_starts(s, "- ")) {
        advance(r, 2);
    } else {
        skip_journal_tag(r);
    }
    return true;
}

/* "12/06/2024 10:11:12 - INFO - name - " */
static bool read_us_date(struct reader *r)
{
    int m;
    int d;
    int y;
    double seconds;
    size_t end;
    if (digits(r->s, 0, 2, &m) != 2 || char_at(r->s, 2) != '/' || digits(r->s, 3, 2, &d) != 2 ||
        char_at(r->s, 5) != '/' || digits(r->s, 6, 4, &y) != 4 ||
        !clock_time(r->s, 11, &seconds, &end) || !set_wall(r, y, m, d, seconds)) {
        return false;
    }
    advance_space(r, end);
    if (str_starts(r->s, "- ")) {
        advance(r, 2);
    }
    return true;
}

/* "3: " as srun -l and prterun write it. */
static bool read_number_rank(struct reader *r)
{
    int rank;
    int n = digits(r->s, 0, 5, &rank);
    if (n == 0 || n > 4 || char_at(r->s, (size_t)n) != ':' || char_at(r->s, (size_t)n + 1) != ' ') {
        return false;
    }
    r->out->rank = r->out->rank < 0 ? rank : r->out->rank;
    advance(r, (size_t)n + 2);
    return true;
}

/* "Nov 29 12:00:00 host kernel: " */
static bool read_syslog(struct reader *r)
{
    int m = month_of(r->s, 0);
    int d;
    double seconds;
    size_t end;
    size_t at = 4 + (char_at(r->s, 4) == ' ');
    if (m == 0 || char_at(r->s, 3) != ' ') {
        return false;
    }
    int n = digits(r->s, at, 2, &d);
    if (n == 0 || !clock_time(r->s, at + (size_t)n + 1, &seconds, &end) ||
        !set_wall(r, r->year, m, d, seconds)) {
        return false;
    }
    advance_space(r, end);
    size_t host = str_find_char(r->s, ' ', 0);
    size_t colon = str_find(r->s, ": ", 0);
    if (host != SIZE_MAX && colon != SIZE_MAX && colon > host && colon < MAX_TAG &&
        str_find_char(r->s, ' ', host + 1) > colon) {
        r->out->kernel |= str_eq(str_slice(r->s, host + 1, colon), STR("kernel"));
        advance(r, colon + 2);
    }
    return true;
}

static int rank_behind(struct str s, const char *word)
{
    size_t n = strlen(word);
    int rank;
    if (s.n <= n || strncasecmp(s.p, word, n) != 0) {
        return -1;
    }
    size_t at = n + (s.p[n] == ' ' || s.p[n] == ':' || s.p[n] == '=' || s.p[n] == '_');
    int count = digits(s, at, 6, &rank);
    return count > 0 && at + (size_t)count == s.n ? rank : -1;
}

/* "W611 10:00:11.118 Context.cpp:339" inside brackets, "W0611 10:00:01.5 12 x.cpp:3]" bare. */
static bool glog_time(struct reader *r, struct str s)
{
    int date;
    double seconds;
    size_t end;
    if (s.n < 12 || strchr("IWEFDC", s.p[0]) == NULL) {
        return false;
    }
    int n = digits(s, 1, 4, &date);
    return n >= 3 && char_at(s, 1 + (size_t)n) == ' ' &&
           clock_time(s, 2 + (size_t)n, &seconds, &end) &&
           set_wall(r, r->year, date / 100, date % 100, seconds);
}

static bool is_level(struct str s)
{
    static const char *const names[] = {"INFO",  "WARNING",  "WARN",  "ERROR",
                                        "DEBUG", "CRITICAL", "FATAL", "TRACE"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(s, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_boot_time(struct str s, double *ret_seconds)
{
    s = str_trim(s);
    size_t dot = str_find_char(s, '.', 0);
    if (dot == SIZE_MAX || dot == 0 || s.n - dot < 3 || s.n > 20) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (i != dot && !isdigit((unsigned char)s.p[i])) {
            return false;
        }
    }
    return str_to_double(s, ret_seconds) == ST_OK;
}

/* "Mon Nov 29 12:00:00 2026" of dmesg -T and of ctime. */
static bool ctime_text(struct reader *r, struct str s)
{
    int m = s.n == 24 ? month_of(s, 4) : 0;
    int d;
    int y;
    double seconds;
    size_t end;
    size_t at = 8 + (char_at(s, 8) == ' ');
    return m != 0 && digits(s, at, 2, &d) > 0 && clock_time(s, 11, &seconds, &end) &&
           digits(s, 20, 4, &y) == 4 && set_wall(r, y, m, d, seconds);
}

/* What stands between '[' and ']'. True when it is part of a prefix. */
static bool bracket_content(struct reader *r, struct str in)
{
    double boot;
    int rank = rank_behind(in, "rank");
    rank = rank < 0 ? rank_behind(in, "default") : rank;
    if (rank >= 0) {
        r->out->rank = r->out->rank < 0 ? rank : r->out->rank;
        return true;
    }
    if (is_boot_time(in, &boot)) {
        r->out->kernel = true;
        if (r->out->clock == CLOCK_NONE) {
            r->out->clock = CLOCK_BOOT;
            r->out->time = boot;
        }
        return true;
    }
    struct str whole = r->s;
    r->s = in;
    size_t at = 0;
    bool time = in.n >= 19 && iso_time(r, &at);
    r->s = whole;
    if (time || glog_time(r, in) || ctime_text(r, in) || is_level(in)) {
        r->out->kernel |= in.n == 24 && month_of(in, 4) != 0;
        return true;
    }
    return str_starts(in, "pod/") || str_starts(in, "INFO|") || str_starts(in, "WARNING|") ||
           str_starts(in, "ERROR|") || str_starts(in, "PID:") ||
           (r->out->clock == CLOCK_WALL &&
            ((in.n < 100 && str_has(in, ".py")) || str_is(in, "Info") || str_is(in, "Warning") ||
             str_is(in, "Error") || str_is(in, "Debug")));
}

/* "[train] 2025-05-05T10:00:01Z ": a container before the time that its engine printed. */
static bool is_container(struct str in, struct str behind)
{
    size_t n = 0;
    while (isalnum((unsigned char)char_at(in, n)) || char_at(in, n) == '-' ||
           char_at(in, n) == '_') {
        n++;
    }
    int year;
    return n != 0 && n == in.n && char_at(behind, 0) == ' ' && digits(behind, 1, 4, &year) == 4 &&
           char_at(behind, 5) == '-';
}

/* "[80746] " of a viewer that counts the lines of a job. */
static bool is_line_number(struct str in, struct str behind)
{
    for (size_t i = 0; i < in.n; i++) {
        if (!isdigit((unsigned char)in.p[i])) {
            return false;
        }
    }
    return in.n != 0 && char_at(behind, 0) == ' ' &&
           prefix_is_traceback(str_slice(behind, 1, behind.n));
}

static bool read_bracket(struct reader *r)
{
    if (char_at(r->s, 0) != '[') {
        return false;
    }
    size_t close = str_find_char(str_slice(r->s, 0, MAX_TAG), ']', 0);
    if (close == SIZE_MAX) {
        return false;
    }
    struct str in = str_slice(r->s, 1, close);
    int rank;
    size_t comma = str_find_char(in, ',', 0);
    struct str behind = str_slice(r->s, close + 1, r->s.n);
    if (comma != SIZE_MAX && char_at(behind, 0) == '<' &&
        digits(in, comma + 1, 5, &rank) > 0) { /* [1,3]<stderr>: of mpirun --tag-output */
        size_t colon = str_find_char(str_slice(behind, 0, 12), ':', 0);
        if (colon != SIZE_MAX) {
            r->out->rank = r->out->rank < 0 ? rank : r->out->rank;
            advance(r, close + 1 + colon + 1);
            return true;
        }
    }
    /* "[INFO|2025-06-11 10:02:17] llamafactory…" */
    size_t bar = str_find_char(in, '|', 0);
    if (bar != SIZE_MAX && is_level(str_slice(in, 0, bar))) {
        struct reader inner = {.s = str_slice(in, bar + 1, in.n), .year = r->year, .out = r->out};
        size_t at = 0;
        (void)iso_time(&inner, &at);
        r->dated |= inner.dated;
    }
    if (!bracket_content(r, in) && !is_container(in, behind) && !is_line_number(in, behind)) {
        return false;
    }
    size_t end = close + 1;
    end += char_at(r->s, end) == ':';
    advance_space(r, end);
    return true;
}

/* "INFO 06-11 10:00:01 [file.py:1] ", "ERROR 06-11 10:00:01 file.py:1] ", "INFO:root:" is not one. */
static bool read_level(struct reader *r)
{
    size_t space = str_find_char(str_slice(r->s, 0, 12), ' ', 0);
    if (space == SIZE_MAX || !is_level(str_slice(r->s, 0, space))) {
        return false;
    }
    struct str s = str_slice(r->s, space + 1, r->s.n);
    int m;
    int d;
    double seconds;
    size_t end;
    if (digits(s, 0, 2, &m) != 2 || char_at(s, 2) != '-' || digits(s, 3, 2, &d) != 2 ||
        !clock_time(s, 6, &seconds, &end) || !set_wall(r, r->year, m, d, seconds)) {
        return false;
    }
    size_t close = str_find(str_slice(s, end, end + 100), "] ", 0);
    advance(r, space + 1 + end + (close != SIZE_MAX ? close + 2 : 1));
    return true;
}

static bool read_glog(struct reader *r)
{
    if (!glog_time(r, r->s)) {
        return false;
    }
    size_t close = str_find(str_slice(r->s, 0, MAX_TAG), "] ", 0);
    if (close == SIZE_MAX) {
        return false;
    }
    advance(r, close + 2);
    return true;
}

static bool read_priority(struct reader *r) /* "<6>[   12.3]" of /dev/kmsg */
{
    int v;
    int n = char_at(r->s, 0) == '<' ? digits(r->s, 1, 3, &v) : 0;
    if (n == 0 || char_at(r->s, 1 + (size_t)n) != '>') {
        return false;
    }
    advance(r, 2 + (size_t)n);
    return true;
}

/* Which readers may start with this byte; most lines start with none. */
static bool read_part(struct reader *r)
{
    char c = char_at(r->s, 0);
    if (c == '[') {
        return read_bracket(r);
    }
    if (c >= '0' && c <= '9') {
        return read_iso(r) || read_us_date(r) || read_number_rank(r) || prefix_read_host(r);
    }
    if (c == '(') {
        return prefix_read_worker(r);
    }
    if (c == '<') {
        return read_priority(r);
    }
    if (c == '>') {
        return prefix_read_quote(r);
    }
    if (c >= 'A' && c <= 'Z') {
        return read_level(r) || read_glog(r) || read_syslog(r) || prefix_read_service(r);
    }
    if (c >= 'a' && c <= 'z') {
        return prefix_read_kernel_tag(r) || prefix_read_service(r) || prefix_read_host(r);
    }
    return false;
}

struct prefix prefix_parse(struct str line, int year)
{
    struct prefix out = {.time = NAN, .rank = -1, .pid = -1};
    struct reader r = {.s = line, .year = year, .out = &out};
    if (r.s.n != 0 && r.s.p[0] == ' ' && r.s.n > 1 && r.s.p[1] == '[') {
        r.s = str_slice(r.s, 1, r.s.n); /* Megatron: " [2025-05-05 10:10:11] iteration" */
    }
    for (int i = 0; i < MAX_PARTS && read_part(&r); i++) {
    }
    out.body = r.s;
    out.none = r.s.p == line.p && !r.dated;
    return out;
}
