// SPDX-License-Identifier: Apache-2.0
/* Conversations: Alpaca, OpenAI and ShareGPT records become the text of a chat template. */
#include <string.h>

#include "train/data_inside.h"
#include "train/model.h"

enum role {
    ROLE_SYSTEM = 0,
    ROLE_USER,
    ROLE_ASSISTANT
};

struct turn {
    enum role role;
    struct str text;
};

struct turns {
    struct turn *items;
    size_t count;
    size_t capacity;
};

static const struct {
    const char *name;
    enum role role;
} roles[] = {
    {"system", ROLE_SYSTEM},       {"user", ROLE_USER},     {"human", ROLE_USER},
    {"assistant", ROLE_ASSISTANT}, {"gpt", ROLE_ASSISTANT}, {"model", ROLE_ASSISTANT},
};

bool data_is_chat(const struct tree *record)
{
    return tree_get(record, "messages") != NULL || tree_get(record, "conversations") != NULL ||
           tree_get(record, "instruction") != NULL;
}

static enum status wrong(const struct data_writer *w, struct err *err, const char *what)
{
    return err_set(err, ST_FORMAT, "%s:%zu: %s", w->path, w->line, what);
}

static void add_turn(struct data_writer *w, struct turns *turns, enum role role, struct str text)
{
    *VEC_PUSH(w->scratch, turns) = (struct turn){role, text};
}

static enum status message_turns(struct data_writer *w, const struct tree *list,
                                 struct turns *turns, struct err *err)
{
    if (list->kind != TREE_LIST) {
        return wrong(w, err, "'messages' is no list");
    }
    for (const struct tree *m = list->child; m != NULL; m = m->next) {
        const char *role = tree_text(m, "role", tree_text(m, "from", NULL));
        const char *text = tree_text(m, "content", tree_text(m, "value", NULL));
        size_t i = 0;
        if (role == NULL || text == NULL) {
            return wrong(w, err,
                         "a message has no role or no content that is text; wanted is "
                         "{\"role\": \"user\", \"content\": \"...\"}");
        }
        while (i < ARRAY_LEN(roles) && strcmp(role, roles[i].name) != 0) {
            i++;
        }
        if (i == ARRAY_LEN(roles)) {
            return err_set(
                err, ST_FORMAT,
                "%s:%zu: role '%.40s' is not known; known are system, user and assistant", w->path,
                w->line, role);
        }
        add_turn(w, turns, roles[i].role, str_of(text));
    }
    return ST_OK;
}

static enum status alpaca_turns(struct data_writer *w, const struct tree *record,
                                struct turns *turns, struct err *err)
{
    const char *instruction = tree_text(record, "instruction", NULL);
    const char *input = tree_text(record, "input", "");
    const char *output = tree_text(record, "output", NULL);
    const char *system = tree_text(record, "system", "");
    const struct tree *history = tree_get(record, "history");
    if (instruction == NULL || output == NULL) {
        return wrong(w, err, "the record has an 'instruction' and no 'output' that is text");
    }
    if (system[0] != '\0') {
        add_turn(w, turns, ROLE_SYSTEM, str_of(system));
    }
    for (const struct tree *h = history != NULL ? history->child : NULL; h != NULL; h = h->next) {
        if (h->count != 2 || h->child->text == NULL || h->child->next->text == NULL) {
            return wrong(w, err, "'history' is no list of pairs of texts");
        }
        add_turn(w, turns, ROLE_USER, str_of(h->child->text));
        add_turn(w, turns, ROLE_ASSISTANT, str_of(h->child->next->text));
    }
    if (input[0] != '\0') {
        instruction = arena_fmt(w->scratch, "%s\n%s", instruction, input);
    }
    add_turn(w, turns, ROLE_USER, str_of(instruction));
    add_turn(w, turns, ROLE_ASSISTANT, str_of(output));
    return ST_OK;
}

/* System first if at all, then user and assistant by turns, ending with the assistant. */
static enum status check_turns(const struct data_writer *w, const struct turns *turns,
                               struct err *err)
{
    size_t first = turns->count != 0 && turns->items[0].role == ROLE_SYSTEM;
    if (turns->count < first + 2 || (turns->count - first) % 2 != 0) {
        return wrong(w, err, "the conversation does not end with what the assistant says");
    }
    for (size_t i = first; i < turns->count; i++) {
        if (turns->items[i].role != ((i - first) % 2 == 0 ? ROLE_USER : ROLE_ASSISTANT)) {
            return wrong(w, err, "user and assistant do not take turns in the conversation");
        }
    }
    return ST_OK;
}

static void write_front(struct data_writer *w)
{
    const uint32_t *before;
    const uint32_t *after;
    size_t before_count;
    size_t after_count;
    tok_specials(w->options->tokenizer, &before, &before_count, &after, &after_count);
    for (size_t i = 0; i < before_count; i++) {
        data_write_id(w, (int32_t)before[i], w->options->learn_prompt);
    }
}

/* What is said to the model in one round, as one text: BPE must not be cut within it. */
static const char *prompt_of(struct data_writer *w, const struct chat_template *c,
                             const char *system, struct str user)
{
    const char *told = system == NULL ? ""
                                      : arena_fmt(w->scratch, "%s%s%s", c->system_before, system,
                                                  c->system_after);
    const char *outside = c->system_inside ? "" : told;
    const char *inside = c->system_inside ? told : "";
    return arena_fmt(w->scratch, "%s%s%s%.*s%s", outside, c->user_before, inside, STR_ARG(user),
                     c->user_after);
}

static enum status write_round(struct data_writer *w, const struct chat_template *c,
                               const char *prompt, struct str reply, struct err *err)
{
    bool learned = w->options->learn_prompt;
    TRY(data_write_text(w, str_of(prompt), 0, learned, err));
    if (c->reply_after != NULL) {
        const char *text = arena_fmt(w->scratch, "%.*s%s", STR_ARG(reply), c->reply_after);
        return data_write_text(w, str_of(text), 0, true, err);
    }
    TRY(data_write_text(w, reply, 0, true, err));
    if (w->options->eos != DATA_NO_ID) {
        data_write_id(w, w->options->eos, true);
    }
    return ST_OK;
}

enum status data_write_chat(struct data_writer *w, const struct tree *record, struct err *err)
{
    struct turns turns = {0};
    const struct tree *messages = tree_get(record, "messages");
    if (messages == NULL) {
        messages = tree_get(record, "conversations");
    }
    TRY(messages != NULL ? message_turns(w, messages, &turns, err)
                         : alpaca_turns(w, record, &turns, err));
    TRY(check_turns(w, &turns, err));
    const struct chat_template *c = chat_template_find(w->options->tokenizer,
                                                       w->options->template_name);
    if (c == NULL) {
        return err_set(err, ST_USAGE, "there is no chat template '%s'; there are %s",
                       w->options->template_name, chat_template_names(w->scratch));
    }
    w->template_name = c->name;
    size_t first = turns.items[0].role == ROLE_SYSTEM;
    const char *system = first != 0 ? str_dup(w->scratch, turns.items[0].text) : c->no_system;
    for (size_t i = first; i < turns.count; i += 2) {
        if (i == first ? c->bos : c->bos_each_round) {
            write_front(w);
        }
        if (i != first) {
            TRY(data_write_text(w, str_of(c->between), 0, w->options->learn_prompt, err));
        }
        const char *prompt = prompt_of(w, c, i == first ? system : NULL, turns.items[i].text);
        TRY(write_round(w, c, prompt, turns.items[i + 1].text, err));
    }
    return ST_OK;
}
