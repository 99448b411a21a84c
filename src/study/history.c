// SPDX-License-Identifier: Apache-2.0
/* See history.h. */
#include "study/history.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "study/stats.h"

enum {
    BUSY_MS = 10000,
    SCHEMA = 1
};

static const double least_noise = 0.08;
static const double assumed_noise = 0.50;
static const double deviations = 4;

struct history {
    sqlite3 *db;
    const char *path;
};

static enum status fail(const struct history *h, const char *what, struct err *err)
{
    int code = sqlite3_extended_errcode(h->db);
    int primary = code & 0xff;
    const char *text = sqlite3_errmsg(h->db);
    if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) {
        return err_set(
            err, ST_FORMAT,
            "'%s' is no SQLite file, or is damaged (%s): give a file that --history made, or a new name",
            h->path, text);
    }
    enum status st = primary == SQLITE_PERM || primary == SQLITE_AUTH || primary == SQLITE_READONLY
                         ? ST_DENIED
                         : ST_IO;
    return err_set(err, st, "cannot %s '%s': %s", what, h->path, text);
}

static enum status run_sql(struct history *h, const char *sql, const char *what, struct err *err)
{
    return sqlite3_exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ST_OK : fail(h, what, err);
}

/* The one number that a statement answers with. */
static enum status ask(struct history *h, const char *sql, int64_t *ret_number, struct err *err)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(h->db, sql, -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        sqlite3_finalize(s);
        return fail(h, "read", err);
    }
    *ret_number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return ST_OK;
}

/* A damaged file can answer simple questions and give wrong numbers. */
static enum status check_whole(struct history *h, struct err *err)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(h->db, "PRAGMA quick_check(1)", -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        sqlite3_finalize(s);
        return fail(h, "check", err);
    }
    const char *answer = (const char *)sqlite3_column_text(s, 0);
    enum status st = answer != NULL && strcmp(answer, "ok") == 0
                         ? ST_OK
                         : err_set(err, ST_FORMAT, "'%s' is damaged: %.200s", h->path,
                                   answer != NULL ? answer : "no answer");
    sqlite3_finalize(s);
    return st;
}

static enum status make_tables(struct history *h, struct err *err)
{
    static const char sql[] =
        "CREATE TABLE run(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, host TEXT NOT NULL,"
        " device TEXT NOT NULL, stack TEXT NOT NULL);"
        "CREATE TABLE figure(run INTEGER NOT NULL REFERENCES run(id), name TEXT NOT NULL,"
        " unit TEXT NOT NULL, less INTEGER NOT NULL, value REAL NOT NULL);"
        "CREATE INDEX run_key ON run(host, device, stack);"
        "CREATE INDEX figure_run ON figure(run, name);"
        "PRAGMA application_id = 1634956153;" /* HISTORY_APPLICATION */
        "PRAGMA user_version = 1";
    return run_sql(h, sql, "set up", err);
}

static enum status set_up(struct history *h, struct err *err)
{
    int64_t tables = 0;
    int64_t application = 0;
    int64_t version = 0;
    sqlite3_busy_timeout(h->db, BUSY_MS);
    TRY(run_sql(h, "BEGIN IMMEDIATE", "write to", err));
    TRY(ask(h, "SELECT count(*) FROM sqlite_master", &tables, err));
    TRY(ask(h, "PRAGMA application_id", &application, err));
    TRY(ask(h, "PRAGMA user_version", &version, err));
    if (tables == 0 && application == 0) {
        TRY(make_tables(h, err));
    } else if (application != HISTORY_APPLICATION) {
        return err_set(
            err, ST_FORMAT,
            "'%s' is the SQLite file of another program: give a file that --history made, or a new name",
            h->path);
    } else if (version != SCHEMA) {
        return err_set(err, ST_UNSUPPORTED, "'%s' is of version %lld, this program knows %d",
                       h->path, (long long)version, SCHEMA);
    }
    TRY(run_sql(h, "COMMIT", "write to", err));
    return check_whole(h, err);
}

enum status history_open(struct arena *a, const char *path, struct history **ret_history,
                         struct err *err)
{
    struct history *h = arena_alloc(a, sizeof *h);
    h->path = arena_strdup(a, path);
    if (sqlite3_open_v2(path, &h->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        enum status st = fail(h, "open", err);
        history_close(h);
        return st;
    }
    enum status st = set_up(h, err);
    if (st != ST_OK) {
        history_close(h);
        return st;
    }
    *ret_history = h;
    return ST_OK;
}

void history_close(struct history *h)
{
    sqlite3_close_v2(h->db); /* rolls back what is open */
    h->db = NULL;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
}

static enum status add_run(struct history *h, const struct history_key *key, int64_t at,
                           struct err *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(
        h->db, "INSERT INTO run(at, host, device, stack) VALUES (?, ?, ?, ?)", -1, &s, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(s, 1, at);
        bind_text(s, 2, key->host);
        bind_text(s, 3, key->device);
        bind_text(s, 4, key->stack);
        code = sqlite3_step(s);
    }
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? ST_OK : fail(h, "write to", err);
}

static enum status add_figures(struct history *h, const struct history_figure *figures,
                               size_t count, struct err *err)
{
    sqlite3_int64 run = sqlite3_last_insert_rowid(h->db);
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(h->db, "INSERT INTO figure VALUES (?, ?, ?, ?, ?)", -1, &s, NULL) !=
        SQLITE_OK) {
        return fail(h, "write to", err);
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(figures[i].value)) {
            continue;
        }
        sqlite3_bind_int64(s, 1, run);
        bind_text(s, 2, figures[i].name);
        bind_text(s, 3, figures[i].unit);
        sqlite3_bind_int(s, 4, figures[i].less);
        sqlite3_bind_double(s, 5, figures[i].value);
        if (sqlite3_step(s) != SQLITE_DONE) {
            enum status st = fail(h, "write to", err);
            sqlite3_finalize(s);
            return st;
        }
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return ST_OK;
}

enum status history_add(struct history *h, const struct history_key *key, int64_t at,
                        const struct history_figure *figures, size_t count, struct err *err)
{
    TRY(run_sql(h, "BEGIN IMMEDIATE", "write to", err));
    enum status st = add_run(h, key, at, err);
    if (st == ST_OK) {
        st = add_figures(h, figures, count, err);
    }
    if (st == ST_OK) {
        return run_sql(h, "COMMIT", "write to", err);
    }
    sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

enum status history_values(struct history *h, const struct history_key *key,
                           const struct history_figure *figure, double ret_values[HISTORY_RUNS],
                           size_t *ret_count, struct err *err)
{
    static const char sql[] =
        "SELECT f.value FROM figure f JOIN run r ON r.id = f.run WHERE r.host = ?1"
        " AND r.device = ?2 AND (?3 IS NULL OR r.stack = ?3) AND f.name = ?4 AND f.unit = ?5"
        " ORDER BY r.id DESC LIMIT ?6";
    sqlite3_stmt *s = NULL;
    size_t n = 0;
    int code = sqlite3_prepare_v2(h->db, sql, -1, &s, NULL);
    if (code == SQLITE_OK) {
        bind_text(s, 1, key->host);
        bind_text(s, 2, key->device);
        bind_text(s, 3, key->stack); /* NULL binds NULL */
        bind_text(s, 4, figure->name);
        bind_text(s, 5, figure->unit);
        sqlite3_bind_int(s, 6, HISTORY_RUNS);
        while ((code = sqlite3_step(s)) == SQLITE_ROW && n < HISTORY_RUNS) {
            double v = sqlite3_column_double(s, 0);
            if (v > 0 && isfinite(v)) {
                ret_values[n++] = v;
            }
        }
    }
    sqlite3_finalize(s);
    if (code != SQLITE_DONE && code != SQLITE_ROW) {
        return fail(h, "read", err);
    }
    *ret_count = n;
    return ST_OK;
}

struct history_verdict history_judge(struct arena *a, const double *values, size_t count,
                                     const struct history_figure *now)
{
    const double normal = 1.4826; /* as in stats_robust_sd() */
    struct history_verdict v = {.count = count, .median = stats_median(a, values, count)};
    double spread = count > 1 ? stats_robust_sd(a, values, count) : 0;
    double noise = deviations * spread / v.median;
    v.mad = spread / normal;
    v.measured = count >= HISTORY_MEASURED;
    v.bound = 1 + (!v.measured ? assumed_noise : noise > least_noise ? noise : least_noise);
    v.ratio = now->less ? now->value / v.median : v.median / now->value;
    if (!(now->value > 0)) {
        v.ratio = NAN; /* no speed and no time is 0 or below */
    }
    v.worse = !(v.ratio <= v.bound);
    return v;
}
