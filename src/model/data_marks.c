// SPDX-License-Identifier: Apache-2.0
/* Lists of marks, and how they are looked for. */
#include "model/data_marks.h"

#include <string.h>

#include "base/fs.h"

#include "model/checkpoint.h"

enum {
    MEDIA_LOOKED_AT = 64 << 10 /* bytes of the largest file that is opened */
};

/* ---- control tokens ---- */

static const char *const marks[] = {
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|eot|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|start|>assistant",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
};

/* "<|image_pad|>": processors write such themselves, and some sets carry them. */
static bool is_of_media(struct str token)
{
    static const char *const parts[] = {"image", "img", "vision", "video", "audio", "IMAGE", "IMG"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (str_has(token, parts[i])) {
            return true;
        }
    }
    return false;
}

const char *data_control_mark(struct arena *a, struct str text, const struct tokenizer *t)
{
    size_t count = 0;
    const struct tok_added *added = t != NULL ? tok_added_list(t, &count) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (str_has(text, marks[i])) {
            return marks[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct tok_added *one = &added[i];
        if (one->special && one->content.n > 2 && !is_of_media(one->content)) {
            const char *mark = str_dup(a, one->content);
            if (str_has(text, mark)) {
                return mark;
            }
        }
    }
    return NULL;
}

/* ---- text that was decoded wrongly ---- */

bool data_is_mojibake(struct str text)
{
    static const char quote[] = "\xc3\xa2\xe2\x82\xac"; /* of U+2018 to U+201D */
    if (str_has(text, quote)) {
        return true;
    }
    /* U+00C2 or U+00C3, and U+00A0 to U+00BF behind it: once it may be meant so */
    size_t pairs = 0;
    for (size_t i = 0; i + 3 < text.n && pairs < 2; i++) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        pairs += p[0] == 0xc3 && (p[1] == 0x82 || p[1] == 0x83) && p[2] == 0xc2 && p[3] >= 0xa0;
    }
    return pairs >= 2;
}

/* ---- media ---- */

const char *data_media_foreign(struct arena *a, const char *path)
{
    static const struct fs live = {.prefix = ""};
    struct stat st;
    struct str head;
    if (fs_stat(&live, a, path, &st, NULL) != ST_OK || !S_ISREG(st.st_mode) ||
        st.st_size > MEDIA_LOOKED_AT || str_ends(str_of(path), ".svg")) {
        return NULL;
    }
    struct arena_mark mark = arena_mark(a);
    const char *what = NULL;
    if (fs_read(&live, a, path, MEDIA_LOOKED_AT, &head, NULL) == ST_OK) {
        what = checkpoint_foreign(head);
    }
    arena_rewind(a, mark);
    return what;
}
