// SPDX-License-Identifier: Apache-2.0
/*
 * Logs that come packed, one line of text in each line of a file:
 * JSON lines of Docker ({"log":"…\n","stream":"stderr","time":"…"}), journalctl -o json ({"MESSAGE":"…"}),
 * Loki and Fluent Bit ({"line"/"message":"…","timestamp":"…"}); Jupyter notebooks (items of "traceback" and
 * "text"); HTML (<span>…</span>, &quot;); a block of code of Markdown, every line four spaces or a tab in.
 *
 * Formats: https://docs.docker.com/engine/logging/drivers/json-file/,
 * https://www.freedesktop.org/software/systemd/man/latest/journalctl.html,
 * https://nbformat.readthedocs.io/en/latest/format_description.html.
 */
#ifndef ASSAY_DIAGNOSIS_UNWRAP_H
#define ASSAY_DIAGNOSIS_UNWRAP_H

#include "base/str.h"

enum wrapping {
    WRAPPING_NONE = 0,
    WRAPPING_JSON_LINES,
    WRAPPING_NOTEBOOK,
    WRAPPING_HTML,
    WRAPPING_INDENTED
};

/* What a file is, by its first bytes. A log of metrics as JSON is no wrapping: its numbers count. */
enum wrapping wrapping_of(struct str beginning);

/*
 * The text that a line (without its '\n') holds, written to `out`, which has room for line.n bytes; never
 * more. A time of its own goes before it, "kernel: " before a line of the kernel; a line break inside of
 * it becomes '\r'. A line that is not as expected is copied as it stands. Returns the length.
 */
size_t unwrap_line(enum wrapping wrapping, struct str line, char *out, struct strbuf *scratch);

#endif
