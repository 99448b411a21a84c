// SPDX-License-Identifier: Apache-2.0
/* Layouts are told by their keys; each becomes turns. */
#include "model/data_sample.h"

#include <string.h>

static const struct {
    const char *name;
    enum data_role role;
} roles[] = {
    {"system", DATA_SYSTEM},       {"developer", DATA_SYSTEM},
    {"user", DATA_USER},           {"human", DATA_USER},
    {"assistant", DATA_ASSISTANT}, {"gpt", DATA_ASSISTANT},
    {"model", DATA_ASSISTANT},     {"bot", DATA_ASSISTANT},
    {"chatgpt", DATA_ASSISTANT},   {"bing", DATA_ASSISTANT},
    {"bard", DATA_ASSISTANT},      {"function_call", DATA_ASSISTANT},
    {"tool", DATA_TOOL},           {"observation", DATA_TOOL},
    {"function", DATA_TOOL},       {"function_response", DATA_TOOL},
    {"ipython", DATA_TOOL},        {"tool_response", DATA_TOOL},
};

static const struct {
    const char *name;
    const char *keys[2]; /* of lists of them */
    const char *placeholder;
    const char *parts[3]; /* types of a message's parts */
} media[DATA_MEDIA_COUNT] = {
    [DATA_IMAGE] = {"image", {"images", "image"}, "<image>", {"image", "image_url", "input_image"}},
    [DATA_VIDEO] = {"video", {"videos", "video"}, "<video>", {"video", "video_url", "input_video"}},
    [DATA_AUDIO] = {"audio", {"audios", "audio"}, "<audio>", {"audio", "audio_url", "input_audio"}},
};

const char *data_layout_name(enum data_layout layout)
{
    static const char *const names[DATA_LAYOUT_COUNT] = {"unknown", "messages",  "ShareGPT",
                                                         "Alpaca",  "prompt",    "prompt only",
                                                         "steps",   "token ids", "text"};
    return layout < DATA_LAYOUT_COUNT ? names[layout] : "?";
}

const char *data_role_name(enum data_role role)
{
    static const char *const names[DATA_ROLE_COUNT] = {"unknown",   "system", "user",
                                                       "assistant", "tool",   "text"};
    return role < DATA_ROLE_COUNT ? names[role] : "?";
}

const char *data_media_name(enum data_media m)
{
    return m < DATA_MEDIA_COUNT ? media[m].name : "?";
}

/* ---- values ---- */

static const char *string_of(const struct tree *t)
{
    return t != NULL && t->kind == TREE_SCALAR && t->value.kind == VALUE_STRING ? t->text : NULL;
}

static const char *string_at(const struct tree *t, const char *key)
{
    return string_of(tree_get(t, key));
}

static bool is_list(const struct tree *t)
{
    return t != NULL && t->kind == TREE_LIST;
}

/* Absent, or null as Arrow writes absent fields. */
static bool is_null(const struct tree *t)
{
    return t == NULL || (t->kind == TREE_SCALAR && t->value.kind == VALUE_NULL);
}

static void miss(struct data_sample *s, const char *field)
{
    s->missing = s->missing == NULL ? field : s->missing;
}

/* ---- turns ---- */

static enum data_role role_of(const char *name)
{
    for (size_t i = 0; name != NULL && i < ARRAY_LEN(roles); i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return roles[i].role;
        }
    }
    return DATA_ROLE_UNKNOWN;
}

static void count_placeholders(struct data_sample *s, struct str text)
{
    for (int m = 0; m < DATA_MEDIA_COUNT; m++) {
        size_t n = strlen(media[m].placeholder);
        for (size_t at = str_find(text, media[m].placeholder, 0); at != SIZE_MAX; s->placed[m]++) {
            at = str_find(text, media[m].placeholder, at + n);
        }
    }
}

static struct data_turn *add_turn(struct arena *a, struct data_sample *s, const char *name,
                                  enum data_role role, const char *text)
{
    struct data_turn *t = VEC_PUSH(a, &s->turns);
    *t = (struct data_turn){.role = role,
                            .name = name,
                            .text = str_of(text),
                            .has_text = text != NULL,
                            .trained = role == DATA_ASSISTANT || role == DATA_PLAIN};
    if (role != DATA_ASSISTANT) { /* an answer may speak of a placeholder */
        count_placeholders(s, t->text);
    }
    return t;
}

/* A part that is no text: which medium, and its path when it carries one. */
static bool add_media_part(struct arena *a, struct data_sample *s, const struct tree *part,
                           const char *type)
{
    for (int m = 0; m < DATA_MEDIA_COUNT; m++) {
        for (size_t k = 0; k < ARRAY_LEN(media[m].parts); k++) {
            if (strcmp(type, media[m].parts[k]) != 0) {
                continue;
            }
            const struct tree *where = tree_get(part, type);
            const char *path = string_of(where);
            path = path != NULL ? path : string_at(where, "url");
            path = path != NULL ? path : string_at(part, "path");
            path = path != NULL ? path : string_at(part, "url");
            if (path != NULL) {
                *VEC_PUSH(a, &s->paths) = path;
            } else {
                s->placed[m]++;
            }
            return true;
        }
    }
    return false;
}

/* Parts of a message in a row: the texts are joined. */
static const char *join_parts(struct arena *a, struct data_sample *s, const struct tree *parts)
{
    struct strbuf text;
    bool any = false;
    strbuf_init(&text, a, (size_t)64 << 20);
    for (const struct tree *p = parts->child; p != NULL; p = p->next) {
        const char *type = string_at(p, "type");
        const char *one = string_of(p) != NULL ? string_of(p) : string_at(p, "text");
        if (one != NULL) {
            strbuf_addz(&text, one);
            any = true;
        } else if (type != NULL && add_media_part(a, s, p, type)) {
            any = true;
        } else {
            miss(s, "text of a part");
        }
    }
    return any ? text.p : NULL;
}

static void add_message(struct arena *a, struct data_sample *s, const struct tree *m)
{
    const char *name = string_at(m, "role");
    name = name != NULL ? name : string_at(m, "from");
    const struct tree *content = tree_get(m, "content");
    content = content != NULL ? content : tree_get(m, "value");
    const char *text = is_list(content) ? join_parts(a, s, content) : string_of(content);
    const struct tree *calls = tree_get(m, "tool_calls");
    struct data_turn *t = add_turn(a, s, name, role_of(name), text);
    t->calls = is_list(calls) && calls->count != 0;
    if (name == NULL) {
        miss(s, "role");
    } else if (text == NULL && !t->calls) {
        miss(s, "content");
    }
    const struct tree *weight = tree_get(m, "weight");
    const struct tree *train = tree_get(m, "train");
    if ((weight != NULL && weight->value.kind == VALUE_INT && weight->value.integer == 0) ||
        (train != NULL && train->value.kind == VALUE_BOOL && !train->value.boolean)) {
        t->trained = false;
    }
}

static void add_messages(struct arena *a, struct data_sample *s, const struct tree *list)
{
    for (const struct tree *m = list->child; m != NULL; m = m->next) {
        add_message(a, s, m);
    }
}

static void add_system(struct arena *a, struct data_sample *s, const struct tree *record)
{
    const char *system = string_at(record, "system");
    if (system != NULL && system[0] != '\0') {
        add_turn(a, s, "system", DATA_SYSTEM, system);
    }
}

/* ---- layouts ---- */

static void read_alpaca(struct arena *a, struct data_sample *s, const struct tree *r)
{
    const struct tree *history = tree_get(r, "history");
    const char *instruction = string_at(r, "instruction");
    const char *input = string_at(r, "input");
    add_system(a, s, r);
    for (const struct tree *p = is_list(history) ? history->child : NULL; p != NULL; p = p->next) {
        const char *question = string_of(p->child);
        const char *answer = p->child != NULL ? string_of(p->child->next) : NULL;
        if (question == NULL || answer == NULL || p->count != 2) {
            miss(s, "pair of history");
        }
        add_turn(a, s, "instruction", DATA_USER, question);
        add_turn(a, s, "output", DATA_ASSISTANT, answer);
    }
    if (instruction == NULL) {
        miss(s, "instruction");
    }
    if (!is_null(tree_get(r, "input")) && input == NULL) {
        miss(s, "input");
    }
    bool both = instruction != NULL && instruction[0] != '\0' && input != NULL && input[0] != '\0';
    add_turn(a, s, "instruction", DATA_USER,
             both                                ? arena_fmt(a, "%s\n%s", instruction, input)
             : input != NULL && input[0] != '\0' ? input
                                                 : instruction);
    if (!s->preference) {
        const char *output = string_at(r, "output");
        add_turn(a, s, "output", DATA_ASSISTANT, output);
        if (output == NULL) {
            miss(s, "output");
        }
    }
}

static void read_prompt(struct arena *a, struct data_sample *s, const struct tree *r)
{
    const struct tree *prompt = tree_get(r, "prompt");
    const struct tree *completion = tree_get(r, "completion");
    add_system(a, s, r);
    if (is_list(prompt)) {
        add_messages(a, s, prompt);
    } else if (prompt != NULL || !s->preference) {
        add_turn(a, s, "prompt", DATA_USER, string_of(prompt));
    }
    if (prompt != NULL && !is_list(prompt) && string_of(prompt) == NULL) {
        miss(s, "prompt");
    }
    if (is_list(completion)) {
        add_messages(a, s, completion);
    } else if (!s->preference) {
        add_turn(a, s, "completion", DATA_ASSISTANT, string_of(completion));
        if (string_of(completion) == NULL) {
            miss(s, "completion");
        }
    }
}

static void read_prompt_only(struct arena *a, struct data_sample *s, const struct tree *r)
{
    const struct tree *prompt = tree_get(r, "prompt");
    add_system(a, s, r);
    if (is_list(prompt)) {
        add_messages(a, s, prompt);
    } else {
        add_turn(a, s, "prompt", DATA_USER, string_of(prompt));
    }
    if (!is_list(prompt) && string_of(prompt) == NULL) {
        miss(s, "prompt");
    }
}

/* Steps of an answer, each with a label: TRL's stepwise supervision. */
static void read_steps(struct arena *a, struct data_sample *s, const struct tree *r)
{
    const struct tree *steps = tree_get(r, "completions");
    const struct tree *labels = tree_get(r, "labels");
    struct strbuf text;
    strbuf_init(&text, a, (size_t)64 << 20);
    read_prompt_only(a, s, r);
    for (const struct tree *e = is_list(steps) ? steps->child : NULL; e != NULL; e = e->next) {
        if (string_of(e) == NULL) {
            miss(s, "completions");
        }
        strbuf_addz(&text, string_of(e) != NULL ? string_of(e) : "");
        strbuf_addc(&text, '\n');
    }
    add_turn(a, s, "completions", DATA_ASSISTANT, text.p);
    if (!is_list(steps) || !is_list(labels) || steps->count != labels->count) {
        miss(s, "labels, one for each of completions");
    }
}

/* Integers of a list; false when there is another value in it. */
static bool is_ints(const struct tree *list)
{
    for (const struct tree *e = list->child; e != NULL; e = e->next) {
        if (e->kind != TREE_SCALAR || e->value.kind != VALUE_INT) {
            return false;
        }
    }
    return true;
}

static void read_ids(struct data_sample *s, const struct tree *r)
{
    static const int64_t LEFT_OUT = -100; /* torch's ignore_index */
    const struct tree *ids = tree_get(r, "input_ids");
    const struct tree *labels = tree_get(r, "labels");
    const struct tree *mask = tree_get(r, "attention_mask");
    if (!is_list(ids) || !is_ints(ids)) {
        miss(s, "input_ids");
        return;
    }
    s->ids = s->trained_ids = ids->count;
    for (const struct tree *e = ids->child; e != NULL; e = e->next) {
        if (e->value.integer < 0) {
            miss(s, "input_ids");
        } else if ((uint64_t)e->value.integer > s->largest_id) {
            s->largest_id = (uint64_t)e->value.integer;
        }
    }
    if (!is_null(labels)) {
        if (!is_list(labels) || !is_ints(labels) || labels->count != ids->count) {
            miss(s, "labels, one for each of input_ids");
            return;
        }
        s->trained_ids = 0;
        for (const struct tree *e = labels->child; e != NULL; e = e->next) {
            s->trained_ids += e->value.integer != LEFT_OUT;
        }
    }
    if (!is_null(mask) && (!is_list(mask) || mask->count != ids->count)) {
        miss(s, "attention_mask, one for each of input_ids");
    }
}

/* A list with a user's turn in it is the whole talk, whatever else stands in the record. */
static bool is_whole_talk(const struct tree *list)
{
    for (const struct tree *m = is_list(list) ? list->child : NULL; m != NULL; m = m->next) {
        const char *name = string_at(m, "role");
        if (role_of(name != NULL ? name : string_at(m, "from")) == DATA_USER) {
            return true;
        }
    }
    return false;
}

/* The chosen answer goes behind what is there: a string, a message, or a list that ends with it. */
static void read_preference(struct arena *a, struct data_sample *s, const struct tree *r)
{
    const struct tree *chosen = tree_get(r, "chosen");
    const struct tree *rejected = tree_get(r, "rejected");
    if (is_whole_talk(chosen)) {
        s->turns.count = 0;
        memset(s->placed, 0, sizeof s->placed);
    }
    s->implicit = s->turns.count == 0 && string_of(chosen) != NULL;
    if (is_list(chosen) && s->turns.count == 0) {
        add_messages(a, s, chosen);
    } else {
        const struct tree *last = chosen;
        for (const struct tree *m = is_list(chosen) ? chosen->child : NULL; m != NULL;
             m = m->next) {
            last = m;
        }
        if (string_of(last) != NULL) {
            add_turn(a, s, "chosen", DATA_ASSISTANT, string_of(last));
        } else if (last != NULL && last->kind == TREE_MAP) {
            add_message(a, s, last);
        } else {
            miss(s, "chosen");
        }
    }
    for (const struct tree *m = is_list(rejected) ? rejected->child : NULL; m != NULL;
         m = m->next) {
        rejected = m->next == NULL ? m : rejected;
    }
    const char *text = string_of(rejected);
    text = text != NULL ? text : string_at(rejected, "content");
    text = text != NULL ? text : string_at(rejected, "value");
    s->rejected = str_of(text);
    if (text == NULL) {
        miss(s, "rejected");
    }
}

/* A path, a list of them, or of {"path": ...}; bytes in the record are taken as they are. */
static void read_media(struct arena *a, struct data_sample *s, const struct tree *r)
{
    for (int m = 0; m < DATA_MEDIA_COUNT; m++) {
        for (size_t k = 0; k < ARRAY_LEN(media[m].keys); k++) {
            const struct tree *t = tree_get(r, media[m].keys[k]);
            if (is_null(t)) {
                continue;
            }
            s->has_media[m] = true;
            bool many = is_list(t);
            for (const struct tree *e = many ? t->child : t; e != NULL; e = many ? e->next : NULL) {
                const char *path = string_of(e) != NULL ? string_of(e) : string_at(e, "path");
                path = path != NULL ? path : string_at(e, "url");
                s->listed[m]++;
                if (path != NULL) {
                    *VEC_PUSH(a, &s->paths) = path;
                }
            }
            break;
        }
    }
}

void data_sample_read(struct arena *a, const struct tree *record, struct data_sample *ret_sample)
{
    struct data_sample s = {0};
    const struct tree *list = is_list(record) ? record : tree_get(record, "messages");
    const struct tree *talk = tree_get(record, "conversations");
    talk = talk != NULL ? talk : tree_get(record, "conversation");
    s.preference = !is_null(tree_get(record, "chosen")) && !is_null(tree_get(record, "rejected"));
    if (list != NULL && !is_null(list)) {
        s.layout = DATA_MESSAGES;
    } else if (talk != NULL) {
        s.layout = DATA_SHAREGPT;
        list = talk;
    } else if (tree_get(record, "instruction") != NULL) {
        s.layout = DATA_ALPACA;
        read_alpaca(a, &s, record);
    } else if (tree_get(record, "completion") != NULL || s.preference) {
        s.layout = DATA_PROMPT;
        read_prompt(a, &s, record);
    } else if (is_list(tree_get(record, "completions")) && tree_get(record, "prompt") != NULL) {
        s.layout = DATA_STEPS;
        read_steps(a, &s, record);
    } else if (tree_get(record, "input_ids") != NULL) {
        s.layout = DATA_IDS;
        read_ids(&s, record);
    } else if (tree_get(record, "prompt") != NULL && tree_get(record, "text") == NULL) {
        s.layout = DATA_PROMPT_ONLY;
        read_prompt_only(a, &s, record);
    } else if (tree_get(record, "text") != NULL) {
        s.layout = DATA_TEXT;
        add_turn(a, &s, "text", DATA_PLAIN, string_at(record, "text"));
        if (string_at(record, "text") == NULL) {
            miss(&s, "text");
        }
    }
    if (s.layout == DATA_MESSAGES || s.layout == DATA_SHAREGPT) {
        add_system(a, &s, record);
        if (is_list(list)) {
            add_messages(a, &s, list);
        } else {
            miss(&s, s.layout == DATA_MESSAGES ? "messages" : "conversations");
        }
    }
    if (s.preference) {
        read_preference(a, &s, record);
    }
    read_media(a, &s, record);
    *ret_sample = s;
}

void data_sample_of_text(struct arena *a, struct str text, struct data_sample *ret_sample)
{
    struct data_sample s = {.layout = DATA_TEXT};
    add_turn(a, &s, "text", DATA_PLAIN, str_dup(a, text));
    *ret_sample = s;
}

/* ---- order ---- */

const char *data_sample_order(const struct data_sample *s, size_t *ret_turn)
{
    enum data_role before = DATA_ROLE_UNKNOWN;
    bool answered = s->layout != DATA_PROMPT_ONLY;
    if (s->layout == DATA_TEXT || s->layout == DATA_IDS || s->implicit) {
        return NULL;
    }
    for (size_t i = 0; i < s->turns.count; i++) {
        const struct data_turn *t = &s->turns.items[i];
        bool begins = before == DATA_ROLE_UNKNOWN || before == DATA_SYSTEM;
        const char *wrong = NULL;
        switch (t->role) {
        case DATA_SYSTEM: wrong = i != 0 ? "a system turn stands behind another turn" : NULL; break;
        case DATA_USER:
            wrong = before == DATA_USER ? "two user turns follow each other" : NULL;
            break;
        case DATA_ASSISTANT:
            wrong = begins                     ? "the assistant speaks first"
                    : before == DATA_ASSISTANT ? "two assistant turns follow each other"
                                               : NULL;
            break;
        case DATA_TOOL:
            wrong = begins || before == DATA_USER ? "a tool answers that nobody called" : NULL;
            break;
        default: return NULL; /* an unknown role is a fault of its own */
        }
        if (wrong != NULL) {
            *ret_turn = i;
            return wrong;
        }
        before = t->role;
    }
    if (s->turns.count != 0 && before != DATA_ASSISTANT && answered) {
        *ret_turn = s->turns.count - 1;
        return "the last turn is not the assistant's: nothing is trained on it";
    }
    return NULL;
}
