// SPDX-License-Identifier: Apache-2.0
/* Each record is read into a sample on scratch memory, judged, counted and forgotten but for its hash. */
#include "model/data_check.h"

#include <inttypes.h>
#include <string.h>

#include "base/digest.h"
#include "base/fs.h"
#include "base/utf8.h"

#include "model/data_columns.h"
#include "model/data_marks.h"
#include "model/data_seen.h"

static const struct fs live = {.prefix = ""};

struct checking {
    struct arena *arena;
    struct arena *scratch;
    struct issues *issues;
    const struct data_options *options;
    struct data_check *all;
    struct data_file *file;
    uint32_t file_index;
    struct data_seen *samples;
    struct data_seen *prompts;
    struct tok_encoder *encoder;
    const char *folder; /* media are looked for below it */
    uint64_t line;      /* of the record */
    uint64_t done;      /* bytes of files before */
    uint64_t total;
    bool one_layout; /* so far */
    enum data_layout layout;
    struct data_columns *columns; /* of the file */
    bool prompts_told;            /* of the file */
};

/* Counts a fault, and lists it while there are few of its kind. */
static void tell(struct checking *c, enum severity severity, const char *id, const char *title,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);

static void tell(struct checking *c, enum severity severity, const char *id, const char *title,
                 const char *fmt, ...)
{
    struct data_check *all = c->all;
    size_t k = 0;
    while (k < all->kind_count && strcmp(all->kinds[k].id, id) != 0) {
        k++;
    }
    if (k == all->kind_count && k < ARRAY_LEN(all->kinds)) {
        all->kinds[all->kind_count++] = (struct data_kind){
            .id = id, .file = c->file->path, .line = c->line};
    }
    if (k < all->kind_count) {
        all->kinds[k].count++;
    }
    struct strbuf claim;
    va_list ap;
    size_t before = c->issues->list.count;
    strbuf_init(&claim, c->scratch, 2000);
    va_start(ap, fmt);
    strbuf_vfmt(&claim, fmt, ap);
    va_end(ap);
    c->issues->file = c->file->path;
    issue_add(c->issues, severity, id, title, "%s", claim.p);
    if (c->issues->list.count > before) {
        struct finding *f = &c->issues->list.items[before];
        f->evidence.items[0].line = (long)c->line;
    }
}

static const char *shown(struct checking *c, const char *text)
{
    return issue_text(c->scratch, str_of(text));
}

/* ---- one sample ---- */

static bool is_blank(struct str s)
{
    return str_trim(s).n == 0;
}

/* Once a file. */
static void note_prompt_only(struct checking *c)
{
    if (!c->prompts_told) {
        c->prompts_told = true;
        tell(c, SEVERITY_NOTE, "data-prompt-only", "samples have prompts and no answers",
             "They serve reinforcement learning (GRPO, PPO, online DPO); nothing in them can be "
             "trained on directly.");
    }
}

static void check_turns(struct checking *c, const struct data_sample *s)
{
    bool answers = false;
    for (size_t i = 0; i < s->turns.count; i++) {
        const struct data_turn *t = &s->turns.items[i];
        if (t->role == DATA_ROLE_UNKNOWN && t->name != NULL) {
            tell(c, SEVERITY_ERROR, "data-role-unknown", "a role that no template knows",
                 "Turn %zu is of \"%s\".", i + 1, shown(c, t->name));
        }
        if (t->has_text && !t->calls && is_blank(t->text)) {
            bool answer = t->role == DATA_ASSISTANT || t->role == DATA_PLAIN;
            tell(c, answer ? SEVERITY_ERROR : SEVERITY_WARNING,
                 answer ? "data-empty-answer" : "data-empty-turn",
                 answer ? "an answer is empty" : "a turn is empty",
                 "Turn %zu (%s) holds nothing but white space%s.", i + 1, data_role_name(t->role),
                 answer ? ": nothing is trained but the end of the turn" : "");
        }
        if (str_has(t->text, "\xef\xbf\xbd")) {
            tell(c, SEVERITY_WARNING, "data-replacement", "text was damaged before it came here",
                 "Turn %zu holds U+FFFD, which stands where bytes could not be decoded.", i + 1);
        }
        if (data_is_mojibake(t->text)) {
            tell(c, SEVERITY_WARNING, "data-mojibake", "text was decoded wrongly before",
                 "Turn %zu holds UTF-8 that was read as Latin-1 or Windows-1252 and encoded again "
                 "(\"\u00c3\u00a9\" for \"\u00e9\").",
                 i + 1);
        }
        answers = answers || t->trained;
    }
    if (s->layout == DATA_PROMPT_ONLY) {
        note_prompt_only(c);
    } else if (s->turns.count != 0 && !answers && s->missing == NULL) {
        tell(c, SEVERITY_WARNING, "data-untrained", "nothing of a sample is trained on",
             "None of its %zu turns is an assistant's, or all have the weight 0.", s->turns.count);
    }
}

/* "<|im_start|>" in a content is parsed as the token, and ends the turn for the model. */
static void check_control(struct checking *c, const struct data_sample *s)
{
    for (size_t i = 0; s->layout != DATA_TEXT && i < s->turns.count; i++) {
        const char *mark = data_control_mark(c->scratch, s->turns.items[i].text,
                                             c->options->tokenizer);
        if (mark != NULL) {
            tell(c, SEVERITY_WARNING, "data-control-token",
                 "a content holds a template's control token",
                 "Turn %zu holds \"%s\": it becomes the token itself, not text.", i + 1, mark);
            return;
        }
    }
}

static void check_media(struct checking *c, const struct data_sample *s)
{
    for (int m = 0; m < DATA_MEDIA_COUNT; m++) {
        const char *name = data_media_name((enum data_media)m);
        if (s->has_media[m] ? s->placed[m] != s->listed[m]
                            : s->placed[m] != 0 && s->layout != DATA_TEXT) {
            tell(c, s->has_media[m] ? SEVERITY_ERROR : SEVERITY_WARNING, "data-placeholders",
                 "placeholders and media do not match",
                 "%zu <%s> in the turns, %zu in the list of %ss.", s->placed[m], name, s->listed[m],
                 name);
        }
    }
    for (size_t i = 0; i < s->paths.count; i++) {
        const char *path = s->paths.items[i];
        struct str p = str_of(path);
        if (str_starts(p, "http:") || str_starts(p, "https:") || str_starts(p, "data:") ||
            str_starts(p, "s3:") || str_starts(p, "gs:")) {
            continue;
        }
        path = str_starts(p, "file://") ? path + strlen("file://") : path;
        const char *full = path[0] == '/' ? path : arena_fmt(c->scratch, "%s/%s", c->folder, path);
        if (p.n > 4096 || !fs_exists(&live, c->scratch, full)) {
            tell(c, SEVERITY_ERROR, "data-media-missing", "a file that a sample names is not there",
                 "\"%s\" is not below \"%s\".", shown(c, path), shown(c, c->folder));
            continue;
        }
        const char *what = data_media_foreign(c->scratch, full);
        if (what != NULL) {
            tell(c, SEVERITY_ERROR, "data-media-broken", "a file that a sample names is no medium",
                 "\"%s\" is %s.", shown(c, path), what);
        }
    }
}

static void check_ids(struct checking *c, const struct data_sample *s)
{
    const struct tokenizer *t = c->options->tokenizer;
    if (s->ids == 0) {
        tell(c, SEVERITY_ERROR, "data-empty-sample", "a sample has no turns",
             "Its list of ids is empty.");
    } else if (s->trained_ids == 0) {
        tell(c, SEVERITY_WARNING, "data-untrained", "nothing of a sample is trained on",
             "All %" PRIu64 " labels are -100, which leaves them out of the loss.", s->ids);
    }
    if (t != NULL && s->ids != 0 && s->largest_id >= tok_id_end(t)) {
        tell(c, SEVERITY_ERROR, "data-id-beyond", "ids are beyond the tokenizer's",
             "Its largest id is %" PRIu64
             ", the tokenizer's is %u: the data were made with another "
             "one.",
             s->largest_id, tok_id_end(t) - 1);
    }
}

static void check_structure(struct checking *c, const struct data_sample *s)
{
    size_t turn = 0;
    if (s->missing != NULL) {
        tell(c, SEVERITY_ERROR, "data-missing-field", "a field is missing, or of another kind",
             "The sample (%s) has no usable %s.", data_layout_name(s->layout), s->missing);
    } else if (s->layout == DATA_IDS) {
        check_ids(c, s);
    } else if (s->turns.count == 0) {
        tell(c, SEVERITY_ERROR, "data-empty-sample", "a sample has no turns",
             "Its list of turns is empty.");
    } else {
        const char *order = data_sample_order(s, &turn);
        if (order != NULL) {
            tell(c, SEVERITY_ERROR, "data-role-order", "the turns are out of order",
                 "Turn %zu (%s): %s.", turn + 1, data_role_name(s->turns.items[turn].role), order);
        }
    }
    const struct data_turn *last = s->turns.count != 0 ? &s->turns.items[s->turns.count - 1] : NULL;
    if (s->preference && last != NULL && s->rejected.n != 0 && str_eq(last->text, s->rejected)) {
        tell(c, SEVERITY_ERROR, "data-equal-pair", "chosen and rejected are the same",
             "A pair that does not differ teaches nothing.");
    }
}

/* ---- counting ---- */

static uint64_t count_tokens(struct checking *c, struct str text)
{
    struct tok_ids ids = {0};
    struct err err = {0};
    if (c->encoder == NULL || text.n == 0) {
        return 0;
    }
    if (tok_encode(c->encoder, c->scratch, text, 0, &ids, &err) != ST_OK) {
        tell(c, SEVERITY_UNKNOWN, "data-not-encoded", "a text could not be cut into tokens", "%s.",
             err.text);
    }
    return ids.count;
}

static void count(struct checking *c, const struct data_sample *s)
{
    struct data_file *f = c->file;
    uint64_t tokens = 0;
    f->samples++;
    f->layouts[s->layout]++;
    f->turns += s->turns.count;
    for (size_t i = 0; i < s->turns.count; i++) {
        const struct data_turn *t = &s->turns.items[i];
        uint64_t n = count_tokens(c, t->text);
        tokens += n;
        f->text_bytes += t->text.n;
        f->trained_bytes += t->trained ? t->text.n : 0;
        f->trained_tokens += t->trained ? n : 0;
    }
    tokens += s->ids;
    f->trained_tokens += s->trained_ids;
    f->tokens += tokens;
    if (f->lengths != NULL) {
        f->lengths[tokens < DATA_LENGTH_MAX ? tokens : DATA_LENGTH_MAX]++;
    }
    if (tokens > f->longest) {
        f->longest = tokens;
        f->longest_line = c->line;
    }
    if (c->options->max_length != 0 && tokens > c->options->max_length) {
        f->too_long++;
        tell(c, SEVERITY_WARNING, "data-too-long", "a sample is longer than training takes",
             "%" PRIu64 " tokens in its contents; beyond %" PRIu64
             " they are cut off, the answer's end first.",
             tokens, c->options->max_length);
    }
}

/* Roles, texts without white space around them, and media: of all turns, or of those before the last. */
static uint64_t hash_of(const struct data_sample *s, size_t turns)
{
    uint64_t h = 0;
    for (size_t i = 0; i < turns; i++) {
        struct str text = str_trim(s->turns.items[i].text);
        h = digest_quick(text.p, text.n, h + (uint64_t)s->turns.items[i].role + 1);
    }
    for (size_t i = 0; i < s->paths.count; i++) {
        h = digest_quick(s->paths.items[i], strlen(s->paths.items[i]), h);
    }
    return digest_quick(s->rejected.p, s->rejected.n, h);
}

static const char *place_text(struct checking *c, struct data_place p)
{
    return arena_fmt(c->scratch, "%s:%" PRIu32, c->all->files[p.file].path, p.line);
}

static void check_twice(struct checking *c, const struct data_sample *s)
{
    struct data_place first;
    uint64_t hash = hash_of(s, s->turns.count);
    uint64_t prompt = s->turns.count > 1 ? hash_of(s, s->turns.count - 1) : 0;
    struct data_place here = {.file = c->file_index,
                              .line = c->line < UINT32_MAX ? (uint32_t)c->line : UINT32_MAX};
    if (data_seen_find(c->samples, hash, &first)) {
        if (c->file->is_eval && !c->all->files[first.file].is_eval) {
            c->file->shared++;
            tell(c, SEVERITY_ERROR, "data-eval-in-train",
                 "a sample of the evaluation is in the training data", "It is that of %s.",
                 place_text(c, first));
        } else {
            c->file->duplicates++;
            tell(c, SEVERITY_WARNING, "data-duplicate", "a sample is there twice",
                 "It is the same as %s.", place_text(c, first));
        }
        return;
    }
    c->all->forgot = !data_seen_add(c->samples, hash, here) || c->all->forgot;
    if (prompt == 0) {
        return;
    }
    if (data_seen_find(c->prompts, prompt, &first)) {
        if (c->file->is_eval && !c->all->files[first.file].is_eval) {
            c->file->shared_prompts++;
            tell(c, SEVERITY_WARNING, "data-eval-prompt-in-train",
                 "the evaluation asks what the training data answer",
                 "Everything but the last turn is that of %s.", place_text(c, first));
        }
        return;
    }
    c->all->forgot = !data_seen_add(c->prompts, prompt, here) || c->all->forgot;
}

/* ---- records ---- */

static void check_sample(struct checking *c, const struct data_sample *s)
{
    count(c, s);
    if (s->layout == DATA_LAYOUT_UNKNOWN) {
        tell(c, SEVERITY_ERROR, "data-layout", "a sample is in no layout that is known here",
             "It has none of messages, conversations, instruction, prompt, chosen and rejected, "
             "text, input_ids.");
        return;
    }
    if (c->one_layout && c->layout != DATA_LAYOUT_UNKNOWN && c->layout != s->layout) {
        c->one_layout = false;
        tell(c, SEVERITY_WARNING, "data-mixed-layouts", "a file mixes layouts",
             "This sample is of %s, those before of %s.", data_layout_name(s->layout),
             data_layout_name(c->layout));
    }
    c->layout = s->layout;
    check_structure(c, s);
    check_turns(c, s);
    check_control(c, s);
    check_media(c, s);
    if (s->turns.count != 0) {
        check_twice(c, s);
    }
}

static void tell_not_json(struct checking *c, const struct dataset_record *r, const struct err *err)
{
    static const char name[] = "the record: ";
    const char *why = strstr(err->text, "not JSON: ");
    why = why == NULL && str_starts(str_of(err->text), name) ? err->text + sizeof name - 1 : why;
    bool open = c->file->form == DATASET_LINES && r->text.n > 0 && r->text.p[0] == '{' &&
                r->text.p[r->text.n - 1] != '}';
    c->file->unread++;
    tell(c, SEVERITY_ERROR, "data-not-json", "a record is not JSON", "It is %s%s.",
         why != NULL ? why : err->text,
         open ? "; each line is one sample: this one was cut, or goes on in the next (jq -c . FILE "
                "joins them)"
              : "");
}

/* Arrow keeps one type a column; a message's content may be a string or parts in OpenAI's form. */
static void check_columns(struct checking *c, const struct tree *record)
{
    struct data_clash clash;
    if (data_columns_clash(c->columns, record, c->line, &clash)) {
        tell(c, clash.is_content ? SEVERITY_NOTE : SEVERITY_WARNING, "data-column-type",
             "a field changes its type",
             "\"%s\" is of type %s here and of type %s on line %" PRIu64
             ": datasets.load_dataset(\"json\") stops with \"Column(%s) changed from %s to %s\".",
             shown(c, clash.path), clash.now, clash.before, clash.line, shown(c, clash.path),
             clash.before, clash.now);
    }
}

static void check_record(struct checking *c, const struct dataset_record *r)
{
    struct err err = {0};
    struct data_sample s;
    const struct tree *tree;
    size_t whole = utf8_valid_prefix(r->text);
    c->line = r->line;
    if (r->oversized) {
        c->file->unread++;
        tell(c, SEVERITY_UNKNOWN, "data-oversized", "a record is too large to be looked at",
             "It has more than %zu bytes.", DATASET_RECORD_MAX);
        return;
    }
    if (whole != r->text.n) {
        c->file->unread++;
        tell(c, SEVERITY_ERROR, "data-not-utf8", "a record is not UTF-8",
             "Byte %zu of it begins no character: \"%s\".", whole,
             issue_text(c->scratch, str_slice(r->text, whole > 20 ? whole - 20 : 0, r->text.n)));
        return;
    }
    if (r->is_text) {
        data_sample_of_text(c->scratch, r->text, &s);
        check_sample(c, &s);
        return;
    }
    if (r->text.n > 0 && r->text.p[0] == '\0') {
        size_t zeros = 0;
        while (zeros < r->text.n && r->text.p[zeros] == '\0') {
            zeros++;
        }
        c->file->unread++;
        tell(c, SEVERITY_ERROR, "data-not-json", "a record is not JSON",
             "It begins with %zu zero bytes: a write that did not reach the disk leaves such.",
             zeros);
        return;
    }
    struct tree_limits limits = {
        .bytes = DATASET_RECORD_MAX, .nodes = 4000000, .depth = JSON_PULL_DEPTH};
    if (tree_from_json(c->scratch, r->text, "the record", limits, &tree, &err) != ST_OK) {
        tell_not_json(c, r, &err);
        return;
    }
    check_columns(c, tree);
    if (tree->kind == TREE_SCALAR && tree->value.kind == VALUE_STRING) {
        data_sample_of_text(c->scratch, str_of(tree->text), &s);
    } else if (tree->kind == TREE_SCALAR) {
        c->file->unread++;
        tell(c, SEVERITY_ERROR, "data-layout", "a sample is in no layout that is known here",
             "It is a single value, neither an object nor text.");
        return;
    } else {
        data_sample_read(c->scratch, tree, &s);
    }
    check_sample(c, &s);
}

/* ---- files ---- */

static void read_records(struct checking *c, struct dataset *d)
{
    struct dataset_record record;
    struct err err = {0};
    bool any = true;
    while (any) {
        struct arena_mark mark = arena_mark(c->scratch);
        if (dataset_next(d, c->scratch, &record, &any, &err) != ST_OK) {
            c->line = d->line;
            tell(c, err.status == ST_FORMAT ? SEVERITY_ERROR : SEVERITY_UNKNOWN, "data-broken-off",
                 "the file cannot be read to its end", "%s; what is behind it was not looked at.",
                 err.text);
            return;
        }
        if (any) {
            check_record(c, &record);
        }
        arena_rewind(c->scratch, mark);
        if (c->options->progress != NULL && (d->number & 255) == 0) {
            c->options->progress(c->options->ctx, c->done + d->at, c->total);
        }
    }
    if (file_map_unchanged(&d->map, &err) != ST_OK) {
        tell(c, SEVERITY_UNKNOWN, "data-changed", "a file was changed while it was read", "%s.",
             err.text);
    }
}

static const char *folder_of(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? "." : slash == path ? "/" : arena_copy(a, path, (size_t)(slash - path));
}

static void check_file(struct checking *c, size_t index)
{
    struct dataset d;
    struct err err = {0};
    struct data_file *f = &c->all->files[index];
    c->file = f;
    c->file_index = (uint32_t)index;
    c->line = 0;
    c->one_layout = true;
    c->layout = DATA_LAYOUT_UNKNOWN;
    c->prompts_told = false;
    c->columns = data_columns_new(c->arena);
    c->folder = c->options->media_folder != NULL ? c->options->media_folder
                                                 : folder_of(c->arena, f->path);
    if (fs_is_dir(&live, c->scratch, f->path)) {
        tell(c, SEVERITY_UNKNOWN, "data-unreadable", "a file cannot be read as training data",
             "'%s' is a folder; give the files in it.", shown(c, f->path));
        return;
    }
    if (dataset_open(f->path, &d, &err) != ST_OK) {
        tell(c, err.status == ST_FORMAT ? SEVERITY_ERROR : SEVERITY_UNKNOWN, "data-unreadable",
             "a file cannot be read as training data", "%s.", err.text);
        const char *convert = dataset_conversion(c->arena, f->path);
        if (convert != NULL) {
            issue_remedy(c->issues, convert);
        }
        return;
    }
    f->opened = true;
    f->form = d.form;
    f->bytes = d.map.n;
    if (c->encoder != NULL) {
        f->lengths = arena_array(c->arena, DATA_LENGTH_MAX + 1, sizeof *f->lengths);
    }
    if (d.has_mark) {
        c->line = 1;
        tell(c, SEVERITY_WARNING, "data-byte-order-mark", "the file begins with a byte order mark",
             "Python's json refuses it unless the file is opened as utf-8-sig.");
    }
    read_records(c, &d);
    c->line = 0;
    if (f->samples == 0 && f->unread == 0) {
        tell(c, SEVERITY_ERROR, "data-no-samples", "a file holds no samples",
             "It was read to its end.");
    }
    c->done += f->bytes;
    dataset_close(&d);
}

static uint64_t size_of(struct arena *a, const char *path)
{
    struct stat st;
    return fs_stat(&live, a, path, &st, NULL) == ST_OK ? (uint64_t)st.st_size : 0;
}

void data_check(struct arena *a, const struct text_list *train, const struct text_list *eval,
                const struct data_options *options, struct issues *issues,
                struct data_check *ret_check)
{
    struct data_check all = {.count = train->count + eval->count};
    struct checking c = {.arena = a, .issues = issues, .options = options, .all = &all};
    all.files = arena_array(a, all.count, sizeof *all.files);
    for (size_t i = 0; i < all.count; i++) {
        bool is_eval = i >= train->count;
        all.files[i].path = is_eval ? eval->items[i - train->count] : train->items[i];
        all.files[i].is_eval = is_eval;
        c.total += size_of(a, all.files[i].path);
    }
    c.scratch = arena_new(0);
    c.samples = data_seen_new();
    c.prompts = data_seen_new();
    c.encoder = options->tokenizer != NULL ? tok_encoder_new(options->tokenizer) : NULL;
    for (size_t i = 0; i < all.count; i++) {
        check_file(&c, i);
    }
    if (c.encoder != NULL) {
        tok_encoder_free(c.encoder);
    }
    data_seen_free(c.samples);
    data_seen_free(c.prompts);
    arena_free(c.scratch);
    *ret_check = all;
}

uint64_t data_quantile(const struct data_file *f, double share)
{
    uint64_t below = 0;
    for (uint64_t n = 0; f->lengths != NULL && f->samples != 0 && n <= DATA_LENGTH_MAX; n++) {
        below += f->lengths[n];
        if ((double)below >= share * (double)f->samples) {
            return n;
        }
    }
    return 0;
}
