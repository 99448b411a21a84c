// SPDX-License-Identifier: Apache-2.0
/* The table of chat templates. */
#include "train/data_template.h"

#include <string.h>

static const struct chat_template templates[] = {
    {.name = "chatml",
     .mark = "<|im_start|>",
     .system_before = "<|im_start|>system\n",
     .system_after = "<|im_end|>\n",
     .user_before = "<|im_start|>user\n",
     .user_after = "<|im_end|>\n<|im_start|>assistant\n",
     .reply_after = "<|im_end|>\n",
     .between = "",
     .no_system = NULL},
    {.name = "llama3",
     .mark = "<|start_header_id|>",
     .system_before = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_after = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     .reply_after = "<|eot_id|>",
     .between = "",
     .bos = true},
    {.name = "llama2",
     .mark = "<0x0A>",
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .reply_after = NULL,
     .between = "",
     .bos = true,
     .bos_each_round = true,
     .system_inside = true},
    {.name = "alpaca",
     .mark = NULL,
     .system_before = "",
     .system_after = "\n\n",
     .user_before = "### Instruction:\n",
     .user_after = "\n\n### Response:\n",
     .reply_after = NULL,
     .between = "\n\n",
     .bos = true,
     .no_system =
         "Below is an instruction that describes a task. Write a response that appropriately "
         "completes the request."},
};

const struct chat_template *chat_template_find(const struct tokenizer *t, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        const struct chat_template *c = &templates[i];
        bool wanted = name != NULL ? strcmp(name, c->name) == 0
                                   : c->mark == NULL || tok_find(t, str_of(c->mark)) != TOK_NO_ID;
        if (wanted) {
            return c;
        }
    }
    return NULL;
}

const char *chat_template_names(struct arena *a)
{
    const char *names = templates[0].name;
    for (size_t i = 1; i < ARRAY_LEN(templates); i++) {
        names = arena_fmt(a, "%s, %s", names, templates[i].name);
    }
    return names;
}
