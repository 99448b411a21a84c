// SPDX-License-Identifier: Apache-2.0
/*
 * Training data as records with their lines: JSON Lines, one JSON array of samples, or plain text (.txt,
 * a sample a line). Files are mapped and read forward, so that memory does not grow with them. Parquet,
 * Arrow and compressed files are refused by name.
 */
#ifndef ASSAY_MODEL_DATASET_H
#define ASSAY_MODEL_DATASET_H

#include "base/file_map.h"
#include "base/json_pull.h"

#define DATASET_RECORD_MAX ((size_t)64 << 20) /* bytes of one record */

enum dataset_form {
    DATASET_LINES = 0,
    DATASET_ARRAY,
    DATASET_TEXT,
    DATASET_FORM_COUNT
};

struct dataset {
    struct file_map map;
    enum dataset_form form;
    bool has_mark;         /* a UTF-8 byte order mark in front */
    uint64_t at;           /* bytes read */
    uint64_t line;         /* 1-based, of `at` */
    uint64_t populated;    /* bytes brought into memory: lines */
    uint64_t released;     /* bytes given back to the system */
    uint64_t number;       /* of records so far */
    struct json_pull json; /* DATASET_ARRAY */
    bool ended;
};

struct dataset_record {
    uint64_t line;   /* where it begins, 1-based */
    uint64_t number; /* 1-based */
    struct str text; /* the record as written; a view into the file */
    bool is_text;    /* `text` is the sample itself, not JSON */
    bool oversized;  /* more than DATASET_RECORD_MAX: text holds its beginning only */
};

/* "JSON Lines", "JSON array", "text" */
const char *dataset_form_name(enum dataset_form form);

/* ST_UNSUPPORTED: Parquet, Arrow, compressed; ST_FORMAT: a git-LFS pointer, a web page, an empty file.
 * Close it. */
enum status dataset_open(const char *path, struct dataset *ret_dataset, struct err *err) MUST_USE;
void dataset_close(struct dataset *d);

/*
 * The next record; empty lines are skipped. *ret_any false at the end. ST_FORMAT when an array breaks off
 * (err says where): nothing can be read behind it. ST_IO when the file shrank. `scratch` is the caller's to
 * rewind after each record.
 */
enum status dataset_next(struct dataset *d, struct arena *scratch,
                         struct dataset_record *ret_record, bool *ret_any,
                         struct err *err) MUST_USE;

/* A line of shell that makes JSON Lines of a Parquet or Arrow file with pyarrow; NULL for other files. */
const char *dataset_conversion(struct arena *a, const char *path);

#endif
