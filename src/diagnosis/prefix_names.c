// SPDX-License-Identifier: Apache-2.0
/* Prefixes that are names: of a process, a container, a host. Few lines have one, and much text looks
 * like one, so most are taken off the lines of a traceback alone. See prefix_reader.h. */
#include <ctype.h>

#include "diagnosis/prefix_reader.h"

bool prefix_is_traceback(struct str s)
{
    if (char_at(s, 0) == '[' || str_starts(s, "  ") || str_starts(s, "Traceback (")) {
        return true;
    }
    size_t end = 0;
    while (isalnum((unsigned char)char_at(s, end)) || char_at(s, end) == '_' ||
           char_at(s, end) == '.') {
        end++;
    }
    struct str word = str_slice(s, 0, end);
    return char_at(s, end) == ':' && (str_ends(word, "Error") || str_ends(word, "Exception"));
}

bool prefix_read_worker(struct reader *r)
{
    if (char_at(r->s, 0) != '(') {
        return false;
    }
    size_t close = str_find_char(str_slice(r->s, 0, MAX_TAG), ')', 0);
    struct str in = str_slice(r->s, 1, close == SIZE_MAX ? 1 : close);
    size_t pid = str_find(in, "pid=", 0);
    if (pid == SIZE_MAX) {
        struct str text = str_slice(r->s, close == SIZE_MAX ? r->s.n : close + 2, r->s.n);
        if (in.n == 0 || char_at(r->s, close + 1) != ' ' || str_find_char(in, ' ', 0) != SIZE_MAX ||
            (char_at(text, 0) != '(' && !prefix_is_traceback(text))) {
            return false;
        }
        advance(r, close + 2); /* "(Process) " of a starter that speaks for its child */
        return true;
    }
    uint64_t value;
    size_t end = pid + 4;
    while (isdigit((unsigned char)char_at(in, end))) {
        end++;
    }
    if (str_to_u64(str_slice(in, pid + 4, end), 10, &value) == ST_OK) {
        r->out->pid = (int64_t)value;
    }
    size_t rank_at = str_find(in, "rank=", 0);
    int rank;
    if (rank_at != SIZE_MAX && digits(in, rank_at + 5, 6, &rank) > 0 && r->out->rank < 0) {
        r->out->rank = rank;
    }
    advance_space(r, close + 1);
    return true;
}

bool prefix_read_quote(struct reader *r)
{
    if (char_at(r->s, 1) != ' ') {
        return false;
    }
    advance(r, 2);
    return true;
}

bool prefix_read_service(struct reader *r)
{
    size_t end = 0;
    while (end < MAX_TAG / 2 && (isalnum((unsigned char)char_at(r->s, end)) ||
                                 char_at(r->s, end) == '-' || char_at(r->s, end) == '_')) {
        end++;
    }
    size_t digit = end;
    while (digit != 0 && isdigit((unsigned char)r->s.p[digit - 1])) {
        digit--;
    }
    size_t bar = end;
    while (char_at(r->s, bar) == ' ') {
        bar++;
    }
    bool numbered = digit != end && digit > 1 &&
                    (r->s.p[digit - 1] == '-' || r->s.p[digit - 1] == '_');
    if (bar == end || char_at(r->s, bar) != '|') {
        return false;
    }
    if (!numbered && (bar < end + 2 || char_at(r->s, bar + 1) != ' ' ||
                      !prefix_is_traceback(str_slice(r->s, bar + 2, r->s.n)))) {
        return false;
    }
    advance_space(r, bar + 1);
    return true;
}

bool prefix_read_host(struct reader *r)
{
    size_t end = 0;
    while (end < MAX_TAG && (isdigit((unsigned char)char_at(r->s, end)) ||
                             islower((unsigned char)char_at(r->s, end)) ||
                             char_at(r->s, end) == '-' || char_at(r->s, end) == '.')) {
        end++;
    }
    if (end < 2 || char_at(r->s, end) != ':' || char_at(r->s, end + 1) != ' ' ||
        !isdigit((unsigned char)char_at(r->s, end - 1)) ||
        !prefix_is_traceback(str_slice(r->s, end + 2, r->s.n))) {
        return false;
    }
    advance(r, end + 2);
    return true;
}

bool prefix_read_kernel_tag(struct reader *r)
{
    if (!str_starts(r->s, "kernel: ")) {
        return false;
    }
    r->out->kernel = true;
    advance(r, 8);
    return true;
}
