// SPDX-License-Identifier: Apache-2.0
/*
 * One record, many renderings. A command fills a struct report; a format turns it into text. To add
 * a format: one file with a `const struct report_format format_<name>`, one row in report.c.
 */
#ifndef ASSAY_REPORT_REPORT_H
#define ASSAY_REPORT_REPORT_H

#include <stdbool.h>

#include "base/finding.h"
#include "base/str.h"

#include "report/plot.h"
#include "report/table.h"

/* A list of findings under one JSON key. */
struct report_list {
    const char *key;     /* "causes", "findings", "secondary" */
    const char *heading; /* of the text form; NULL prints none */
    const struct finding_list *findings;
    bool causes; /* finding.id is a class of the taxonomy: JSON says `class` and `layer` */
    bool brief;  /* text form: one line each, first evidence only */
};

/* A row of a score table: what was looked at, how it came out, the points it cost. */
struct report_points {
    const char *name;
    enum severity severity;
    int weight;
    int lost;
};

struct report_score {
    bool present;
    int points; /* 0..100 */
    int maximum;
    double confidence; /* share of what could be read, 0..1 */
    const struct report_points *rows;
    size_t row_count;
};

/* A step of `qualify`. */
struct report_stage {
    const char *name;
    const char *verdict; /* "passed", "failed", "could not tell", "not run" */
    const char *summary;
};

/* What the report is about, as one line: {"command", "python train.py"}. */
struct report_about {
    const char *name;
    const char *text;
};

struct report {
    const char *command; /* "doctor" */
    const char *name;    /* of a part: what tells it from its neighbours; else NULL */
    int schema_version;
    enum severity outcome; /* ERROR, UNKNOWN, or OK: then the exit status of the command says it */
    const char *verdict;   /* one line for the reader; JSON `verdict` */
    struct report_list lists[6];
    size_t list_count;
    struct text_list notes; /* what the reader should know about this answer */
    struct report_stage *stages;
    size_t stage_count;
    struct report_score score;
    struct report_table tables[6];
    size_t table_count;
    struct report_number numbers[4];
    size_t number_count;
    struct report_about about[12];
    size_t about_count;
    struct report_plot plots[8];
    size_t plot_count;
    const struct report_span *spans;
    size_t span_count;
    const struct report *parts; /* reports of their own, such as one a run */
    size_t part_count;
};

struct report_options {
    bool color;
    int width;           /* columns of the text form */
    const char *version; /* of the program, for the foot of a page; NULL leaves it out */
};

struct report_format {
    const char *name;
    const char *what; /* a sentence for documentation */
    void (*render)(const struct report *r, const struct report_options *o, struct strbuf *out);
};

/* Adds a line; more than fit are a mistake of the caller and left out. */
void report_tell(struct report *r, const char *name, const char *text);

/* A paragraph of words wrapped at `width` columns, with its line end; lines behind the first begin at column
 * `indent`. Names in it may come from a file: what a terminal would obey is shown as '?'. */
void report_wrap(struct strbuf *out, const char *text, int indent, int width);

/* NULL when there is no format of that name. */
const struct report_format *report_format_find(const char *name);

#endif
