// SPDX-License-Identifier: Apache-2.0
/* Training data: order, forms of records, packing, the place to resume at, and what is refused. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors_write.h"
#include "train/data.h"
#include "train/data_batch.h"
#include "train/data_order.h"
#include "unit.h"

static struct arena *arena;
static const struct tokenizer *tokenizer;
static char folder[] = "/tmp/assay-data-XXXXXX";

static const char *file_of(const char *name, const char *text)
{
    const char *path = arena_fmt(arena, "%s/%s", folder, name);
    struct err err;
    assert_int_equal(safe_file_write(arena, path, str_of(text), &err), ST_OK);
    return path;
}

/* Reads a text as a file of that name; the sentence of what went wrong, or "". */
static const char *read_as(const char *name, const char *text, struct data_options *options,
                           struct dataset *d)
{
    struct err err = {0};
    const char *path = file_of(name, text);
    *d = (struct dataset){0};
    return data_read(arena, path, options, d, &err) == ST_OK ? "" : arena_strdup(arena, err.text);
}

static void assert_says(const char *sentence, const char *part)
{
    if (strstr(sentence, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, sentence);
    }
}

/* The values torch.randperm prints for these seeds. */
static void test_order_is_torchs(void **state)
{
    (void)state;

    static const struct {
        uint64_t seed;
        uint32_t want[10];
    } rows[] = {{0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
                {42, {2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
                {7, {5, 0, 3, 4, 1, 7, 9, 6, 8, 2}}};

    uint32_t order[1000];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        data_order(rows[i].seed, order, 10);
        assert_memory_equal(order, rows[i].want, sizeof rows[i].want);
    }
    data_order(5, order, 1000); /* beyond one block of the twister */
    assert_int_equal(order[0], 411);
    assert_int_equal(order[997], 389);
    assert_int_equal(order[999], 655);
    data_order(1, order, 0);
    data_order(1, order, 1);
    assert_int_equal(order[0], 0);
}

static void test_ids_and_labels(void **state)
{
    (void)state;
    struct data_options options = {.vocab = 100, .length = 4, .eos = DATA_NO_ID};
    struct dataset d;
    assert_string_equal(read_as("a.jsonl",
                                "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, 3]}\n\n"
                                "{\"input_ids\": [5, 6, 7, 8, 9, 10]}\n"
                                "{\"input_ids\": [5], \"labels\": [5]}\n",
                                &options, &d),
                        "");
    assert_int_equal(d.samples.count, 2);
    assert_int_equal(d.tokens, 7);
    assert_int_equal(d.labels, 1 + 3);
    assert_int_equal(d.truncated, 1);
    assert_int_equal(d.dropped, 1);
    assert_int_equal(d.dropped_line, 4);
    struct batch_source s;
    struct train_batch b;
    struct batch_limits limits = {.sequences = 2};
    batch_source_init(arena, &d, &limits, &s);
    assert_true(batch_next(&s, arena, &b));
    assert_int_equal(b.tokens, 7);
    assert_int_equal(b.sequences, 2);
    static const int32_t ids[] = {1, 2, 3, 5, 6, 7, 8};
    static const int32_t labels[] = {-100, 3, -100, 6, 7, 8, -100}; /* nothing across the border */
    assert_memory_equal(b.ids, ids, sizeof ids);
    assert_memory_equal(b.labels, labels, sizeof labels);
    assert_int_equal(b.start[1], 3);
    assert_int_equal(b.start[2], 7);
    assert_int_equal(batch_labels(&b), 4);
    assert_false(batch_next(&s, arena, &b));
    assert_int_equal(s.place.epoch, 1);
}

static void test_refused_with_the_line(void **state)
{
    (void)state;
    struct data_options options = {.vocab = 100, .length = 8, .eos = DATA_NO_ID};
    struct dataset d;

    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "a.jsonl:1: the file is empty"},
        {"{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 100]}\n",
         "a.jsonl:2: id 100 is beyond the model's vocabulary of 100"},
        {"{\"input_ids\": [1, -100]}", "a.jsonl:1: id -100 is negative"},
        {"{\"input_ids\": [1, 2], \"labels\": [1, -1]}", "a.jsonl:1: label -1 is neither"},
        {"{\"input_ids\": [1, 2], \"labels\": [1]}", "a.jsonl:1: 2 input_ids and 1 labels"},
        {"{\"input_ids\": [1, 2.5]}", "a.jsonl:1: entry 1 of 'input_ids' is no id"},
        {"{\"input_ids\": [1, 99999999999]}", "entry 1 of 'input_ids' is no id"},
        {"{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n{\"input_ids\": [3]}",
         "a.jsonl:1: no label is left: all 2 samples"},
        {"{\"input_ids\": [1, 2]}\nhello\n", "a.jsonl:2: the line is no JSON object"},
        {"{\"prompt\": 1}", "a.jsonl:1: the record has none of"},
        {"{\"input_ids\": ", "record at line 1"},
        {"[{\"input_ids\": [1, 2]},\n {\"input_ids\": [1, 200]}]", "a.jsonl:2: id 200 is beyond"},
        {"[{\"input_ids\": [1, 2]}", "a.jsonl:1: no JSON"},
        {"{\"text\": \"Hello\"}", "a.jsonl:1: the record is text and the model's folder has no"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_says(read_as("a.jsonl", rows[i].text, &options, &d), rows[i].says);
    }
    struct err err = {0};
    assert_int_equal(data_read(arena, "/tmp/assay-no-such.jsonl", &options, &d, &err), ST_ABSENT);
}

static void test_packing_and_resuming(void **state)
{
    (void)state;
    struct data_options options = {.vocab = 100, .length = 100, .eos = DATA_NO_ID};
    struct dataset d;
    struct strbuf text;
    strbuf_init(&text, arena, 1 << 20);
    for (int i = 0; i < 40; i++) {
        strbuf_addz(&text, "{\"input_ids\": [0");
        for (int n = 0; n < i % 7 + 1; n++) {
            strbuf_fmt(&text, ", %d", i);
        }
        strbuf_addz(&text, "]}\n");
    }
    assert_string_equal(read_as("a.jsonl", text.p, &options, &d), "");
    struct batch_limits limits = {.sequences = 1, .tokens = 16, .shuffle = true, .seed = 42};
    struct batch_source all;
    struct train_batch b;
    batch_source_init(arena, &d, &limits, &all);
    uint64_t batches = 0;
    uint64_t tokens = 0;
    int32_t firsts[200];
    struct data_place places[200];
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t promised = batch_count(&all);
        uint64_t before = batches;
        while (places[batches] = all.place, batch_next(&all, arena, &b)) {
            assert_true(b.tokens <= 16);
            assert_int_equal(b.labels[b.tokens - 1], LABEL_IGNORED);
            for (size_t i = 1; i < b.sequences; i++) {
                assert_int_equal(b.labels[b.start[i] - 1], LABEL_IGNORED);
            }
            firsts[batches++] = b.ids[1];
            tokens += b.tokens;
        }
        assert_int_equal(batches - before, promised);
    }
    assert_int_equal(tokens, 2 * d.tokens);
    /* From any place of it the rest is the same. */
    for (uint64_t from = 0; from < batches; from++) {
        struct batch_source again;
        batch_source_init(arena, &d, &limits, &again);
        again.place = places[from];
        assert_true(batch_next(&again, arena, &b));
        assert_int_equal(b.ids[1], firsts[from]);
    }
    /* The order of an epoch is randperm of seed + epoch. */
    uint32_t order[40];
    data_order(43, order, 40);
    struct batch_source second;
    batch_source_init(arena, &d, &limits, &second);
    second.place.epoch = 1;
    assert_true(batch_next(&second, arena, &b));
    assert_int_equal(b.ids[1], order[0]);
}

static void test_split(void **state)
{
    (void)state;
    struct data_options options = {.vocab = 100, .length = 8, .eos = DATA_NO_ID};
    struct dataset d;
    struct dataset eval;
    struct err err;
    assert_string_equal(read_as("a.jsonl",
                                "{\"input_ids\": [1, 1]}\n{\"input_ids\": [2, 2]}\n"
                                "{\"input_ids\": [3, 3]}\n{\"input_ids\": [4, 4, 4]}\n",
                                &options, &d),
                        "");
    uint64_t hash = data_hash(&d);
    assert_int_equal(data_split(arena, &d, 0.25, 1, &eval, &err), ST_OK);
    assert_int_equal(eval.samples.count, 1);
    assert_int_equal(d.samples.count, 3);
    assert_int_equal(d.tokens + eval.tokens, 9);
    assert_int_equal(d.labels + eval.labels, 5);
    assert_true(data_hash(&d) != hash);
    assert_int_equal(data_split(arena, &eval, 0.5, 1, &d, &err), ST_USAGE);
}

static void test_text_and_chat(void **state)
{
    (void)state;
    struct data_options options = {.tokenizer = tokenizer, .vocab = 100000, .length = 6, .eos = 0};
    struct dataset d;
    assert_string_equal(read_as("a.txt", "Hello world, it is a text", &options, &d), "");
    assert_true(d.samples.count >= 2);
    assert_int_equal(d.samples.items[0].count, 6);
    const struct sample *last = &d.samples.items[d.samples.count - 1];
    assert_int_equal(last->ids[last->count - 1], 0); /* the end of sequence */
    options.length = 1000;
    const char *alpaca = "{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"}\n"
                         "{\"messages\": [{\"role\": \"user\", \"content\": \"Add.\\n1 2\"},"
                         "{\"role\": \"assistant\", \"content\": \"3\"}]}\n"
                         "{\"conversations\": [{\"from\": \"human\", \"value\": \"Add.\\n1 2\"},"
                         "{\"from\": \"gpt\", \"value\": \"3\"}]}\n";
    assert_string_equal(read_as("a.jsonl", alpaca, &options, &d), "");
    assert_int_equal(d.samples.count, 3);
    assert_string_equal(d.template_name, "alpaca");
    for (size_t i = 1; i < 3; i++) { /* three spellings of one conversation */
        assert_int_equal(d.samples.items[i].count, d.samples.items[0].count);
        assert_memory_equal(d.samples.items[i].ids, d.samples.items[0].ids,
                            d.samples.items[0].count * sizeof(int32_t));
    }
    const struct sample *s = &d.samples.items[0];
    struct strbuf learned;
    uint32_t ids[1000];
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->labels[i] != LABEL_IGNORED) {
            assert_int_equal(s->labels[i], s->ids[i]);
            ids[n++] = (uint32_t)s->ids[i];
        }
    }
    struct err err;
    strbuf_init(&learned, arena, 1000);
    assert_int_equal(ids[n - 1], 0);
    assert_int_equal(tok_decode(tokenizer, arena, ids, n - 1, false, &learned, &err), ST_OK);
    assert_string_equal(str_dup(arena, str_trim(strbuf_str(&learned))), "3");
    options.template_name = "chatml2";
    assert_says(read_as("a.jsonl", alpaca, &options, &d), "there is no chat template 'chatml2'");
    options.template_name = NULL;
    assert_says(read_as("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
                        &options, &d),
                "a.jsonl:1: the conversation does not end with what the assistant says");
    assert_says(read_as("a.jsonl", "\n{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}",
                        &options, &d),
                "a.jsonl:2: role 'tool' is not known");
}

static void test_tensors(void **state)
{
    (void)state;
    const char *path = arena_fmt(arena, "%s/ids.safetensors", folder);
    static const int64_t ids[] = {1, 2, 3, 0, 4, 5, 6, 7};
    static const int64_t labels[] = {-100, 2, 3, -100, 4, 5, 6, 7};
    static const int64_t mask[] = {1, 1, 1, 0, 1, 1, 1, 1};
    static const size_t shape[] = {2, 4};
    struct safetensors_item items[] = {{"input_ids", DTYPE_I64, DTYPE_I64, 2, shape, ids},
                                       {"labels", DTYPE_I64, DTYPE_I64, 2, shape, labels},
                                       {"attention_mask", DTYPE_I64, DTYPE_I64, 2, shape, mask}};
    struct err err = {0};
    struct data_options options = {.vocab = 100, .length = 8, .eos = DATA_NO_ID};
    struct dataset d = {0};
    assert_int_equal(safetensors_write(arena, path, items, 3, NULL, 0, &err), ST_OK);
    assert_int_equal(data_read(arena, path, &options, &d, &err), ST_OK);
    assert_int_equal(d.samples.count, 2);
    assert_int_equal(d.samples.items[0].count, 3);
    assert_int_equal(d.labels, 2 + 3);
    options.vocab = 7;
    assert_int_equal(data_read(arena, path, &options, &d, &err), ST_FORMAT);
    assert_says(err.text, ":2: id 7 is beyond");
    assert_int_equal(safetensors_write(arena, path, items + 1, 1, NULL, 0, &err), ST_OK);
    assert_int_equal(data_read(arena, path, &options, &d, &err), ST_FORMAT);
    assert_says(err.text, "no tensor 'input_ids'");
}

/* Padding on the right, of any width, is not there: the loss cannot depend on it. */
static void test_right_padding_changes_nothing(void **state)
{
    (void)state;
    const char *path = arena_fmt(arena, "%s/ids.safetensors", folder);
    struct data_options options = {.vocab = 100, .length = 8, .eos = DATA_NO_ID};
    struct err err = {0};
    uint64_t hash[3];
    for (size_t width = 4; width <= 6; width++) {
        const size_t shape[] = {2, width};
        int64_t ids[12];
        int64_t labels[12];
        int64_t mask[12];
        for (size_t i = 0; i < 2 * width; i++) {
            bool token = i % width < (i < width ? 3 : 4);
            ids[i] = token ? (int64_t)(i / width * 10 + i % width) : 99;
            labels[i] = token ? ids[i] : -100;
            mask[i] = token;
        }
        struct safetensors_item items[] = {
            {"input_ids", DTYPE_I64, DTYPE_I64, 2, shape, ids},
            {"labels", DTYPE_I64, DTYPE_I64, 2, shape, labels},
            {"attention_mask", DTYPE_I64, DTYPE_I64, 2, shape, mask}};
        struct dataset d = {0};
        assert_int_equal(safetensors_write(arena, path, items, 3, NULL, 0, &err), ST_OK);
        assert_int_equal(data_read(arena, path, &options, &d, &err), ST_OK);
        assert_int_equal(d.tokens, 7);
        hash[width - 4] = data_hash(&d);
    }
    assert_true(hash[0] == hash[1] && hash[0] == hash[2]);
}

static int setup(void **state)
{
    (void)state;
    struct err err;
    arena = arena_new(0);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    return tok_open(arena, TOKENIZER, &(struct tok_options){0}, &tokenizer, &err) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"a.jsonl", "a.txt", "ids.safetensors"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)unlink(arena_fmt(arena, "%s/%s", folder, names[i]));
    }
    (void)rmdir(folder);
    tok_close(tokenizer);
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_torchs),
        cmocka_unit_test(test_ids_and_labels),
        cmocka_unit_test(test_refused_with_the_line),
        cmocka_unit_test(test_packing_and_resuming),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_text_and_chat),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_right_padding_changes_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
