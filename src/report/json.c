// SPDX-License-Identifier: Apache-2.0
/* JSON form; documented in docs/schema/. */
#include "base/json_out.h"

#include "report/formats.h"

static void texts(struct json_out *j, const char *key, const struct text_list *list)
{
    json_key(j, key);
    json_list(j);
    for (size_t i = 0; i < list->count; i++) {
        json_string(j, list->items[i]);
    }
    json_list_end(j);
}

static void evidence(struct json_out *j, const struct evidence_list *list)
{
    json_key(j, "evidence");
    json_list(j);
    for (size_t i = 0; i < list->count; i++) {
        const struct evidence *e = &list->items[i];
        json_object(j);
        json_field(j, "source", e->source);
        json_key(j, "line");
        if (e->line > 0) {
            json_int(j, e->line);
        } else {
            json_null(j);
        }
        json_field(j, "text", e->text);
        json_object_end(j);
    }
    json_list_end(j);
}

static void finding(struct json_out *j, const struct finding *f, bool cause)
{
    json_object(j);
    if (cause) {
        json_field(j, "class", f->id);
        json_field(j, "layer", f->layer);
    } else {
        json_field(j, "id", f->id);
    }
    json_field(j, "severity", severity_name(f->severity));
    json_field(j, "title", f->title);
    json_field(j, "claim", f->claim);
    json_key(j, "confidence");
    strbuf_fmt(j->out, "%.2f", f->confidence);
    j->after_key = false;
    evidence(j, &f->evidence);
    texts(j, "remedy", &f->remedy);
    texts(j, "links", &f->links);
    json_object_end(j);
}

static void score(struct json_out *j, const struct report_score *s)
{
    json_key(j, "health");
    json_object(j);
    json_key(j, "score");
    json_int(j, s->points);
    json_key(j, "maximum");
    json_int(j, s->maximum);
    json_key(j, "confidence");
    strbuf_fmt(j->out, "%.2f", s->confidence);
    j->after_key = false;
    json_key(j, "weights");
    json_list(j);
    for (size_t i = 0; i < s->row_count; i++) {
        const struct report_points *p = &s->rows[i];
        json_object(j);
        json_field(j, "id", p->name);
        json_field(j, "severity", severity_name(p->severity));
        json_key(j, "weight");
        json_int(j, p->weight);
        json_key(j, "lost");
        json_int(j, p->lost);
        json_object_end(j);
    }
    json_list_end(j);
    json_object_end(j);
}

static void table(struct json_out *j, const struct report_table *t)
{
    json_key(j, t->key);
    json_list(j);
    for (size_t r = 0; r < t->row_count; r++) {
        json_object(j);
        for (size_t c = 0; c < t->column_count; c++) {
            json_key(j, t->columns[c].key);
            json_value(j, &t->cells[r * t->column_count + c]);
        }
        json_object_end(j);
    }
    json_list_end(j);
}

static void stages(struct json_out *j, const struct report *r)
{
    if (r->stage_count == 0) {
        return;
    }
    json_key(j, "stages");
    json_list(j);
    for (size_t i = 0; i < r->stage_count; i++) {
        json_object(j);
        json_field(j, "name", r->stages[i].name);
        json_field(j, "verdict", r->stages[i].verdict);
        json_field(j, "summary", r->stages[i].summary);
        json_object_end(j);
    }
    json_list_end(j);
}

static void about(struct json_out *j, const struct report *r)
{
    if (r->about_count == 0) {
        return;
    }
    json_key(j, "about");
    json_list(j);
    for (size_t i = 0; i < r->about_count; i++) {
        json_object(j);
        json_field(j, "name", r->about[i].name);
        json_field(j, "text", r->about[i].text);
        json_object_end(j);
    }
    json_list_end(j);
}

static void head(struct json_out *j, const struct report *r)
{
    static const char *const outcomes[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "fine",     [SEVERITY_NOTE] = "fine",       [SEVERITY_WARNING] = "fault",
        [SEVERITY_ERROR] = "fault", [SEVERITY_UNKNOWN] = "unknown",
    };
    json_key(j, "schema_version");
    json_int(j, r->schema_version);
    json_field(j, "command", r->command);
    json_field(j, "name", r->name);
    json_field(j, "verdict", r->verdict);
    json_field(j, "outcome", outcomes[r->outcome]);
}

static void body(struct json_out *j, const struct report *r)
{
    json_object(j);
    head(j, r);
    for (size_t i = 0; i < r->number_count; i++) {
        json_key(j, r->numbers[i].key);
        json_int(j, r->numbers[i].value);
    }
    about(j, r);
    stages(j, r);
    for (size_t i = 0; i < r->table_count; i++) {
        table(j, &r->tables[i]);
    }
    for (size_t l = 0; l < r->list_count; l++) {
        json_key(j, r->lists[l].key);
        json_list(j);
        for (size_t i = 0; i < r->lists[l].findings->count; i++) {
            finding(j, &r->lists[l].findings->items[i], r->lists[l].causes);
        }
        json_list_end(j);
    }
    if (r->score.present) {
        score(j, &r->score);
    }
    texts(j, "notes", &r->notes);
    if (r->part_count != 0) {
        json_key(j, "parts");
        json_list(j);
        for (size_t i = 0; i < r->part_count; i++) {
            body(j, &r->parts[i]);
        }
        json_list_end(j);
    }
    json_object_end(j);
}

static void render(const struct report *r, const struct report_options *o, struct strbuf *out)
{
    (void)o;
    struct json_out j;
    json_init(&j, out);
    body(&j, r);
    strbuf_addc(out, '\n');
}

const struct report_format format_json = {
    .name = "json",
    .what = "One JSON object with schema_version; see docs/schema",
    .render = render,
};
