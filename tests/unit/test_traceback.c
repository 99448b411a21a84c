// SPDX-License-Identifier: Apache-2.0
/* Tracebacks in the forms that people paste: which line of the program do they name? */
#include "log_support.h"

static void expect_own(const char *log, const char *file, const char *line, const char *code)
{
    const struct log_facts *lf = log_of(arena, log);
    assert_true(log_facts_count(lf, "python-exception") >= 1);
    const struct event *e = event_of_id(lf, "python-exception", 0);
    assert_capture(e, "own_file", file);
    assert_capture(e, "own_line", line);
    assert_capture(e, "own_code", code);
}

static void the_innermost_frame_outside_of_packages_is_the_programs(void **state)
{
    (void)state;
    expect_own(
        "Traceback (most recent call last):\n"
        "  File \"/w/train.py\", line 12, in <module>\n"
        "    main()\n"
        "  File \"/w/train.py\", line 9, in main\n"
        "    loss.backward()\n"
        "    ^^^^^^^^^^^^^^^\n"
        "  File \"/v/lib/python3.11/site-packages/torch/_tensor.py\", line 363, in backward\n"
        "    torch.autograd.backward(self)\n"
        "RuntimeError: boom\n",
        "/w/train.py", "9", "loss.backward()");
    const struct event *e = event_of_id(log_of(arena, "Traceback (most recent call last):\n"
                                                      "  File \"a.py\", line 1, in <module>\n"
                                                      "    x[3]\n"
                                                      "NameError: name 'x' is not defined\n"),
                                        "python-exception", 0);
    assert_capture(e, "own_raise", "yes");
}

static void a_traceback_of_packages_alone_names_no_line_of_the_program(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n"
               "  File \"/v/lib/python3.11/site-packages/torch/x.py\", line 3, in f\n"
               "    g()\n"
               "RuntimeError: boom\n");
    assert_null(event_capture(event_of_id(lf, "python-exception", 0), "own_file"));
}

static void a_first_frame_without_its_beginning_is_read(void **state)
{
    (void)state;
    expect_own("flux_train.py\", line 244, in encode\n"
               "    return vae.encode(images).latent\n"
               "AttributeError: 'Tensor' object has no attribute 'latent'\n",
               "flux_train.py", "244", "return vae.encode(images).latent");
}

static void what_unsloth_writes_is_not_the_programs(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n"
               "  File \"/w/unsloth_compiled_cache/UnslothGRPOTrainer.py\", line 3, in f\n"
               "    g()\n"
               "TypeError: boom\n");
    assert_null(event_capture(event_of_id(lf, "python-exception", 0), "own_file"));
}

static void frames_that_colab_folds_are_not_the_programs(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena,
        "AttributeError                            Traceback (most recent call last)\n"
        "<ipython-input-10-375f> in <cell line: 23>()\n"
        "---> 23 model = FastLanguageModel.from_pretrained(\n"
        "\n"
        "4 frames\n"
        "/usr/lib/python3/dist-packages/torch/nn/modules/module.py in __getattr__(self, name)\n"
        "-> 1931         raise AttributeError(\n"
        "\n"
        "AttributeError: 'LlamaForCausalLM' object has no attribute 'update'\n");
    assert_capture(event_of_id(lf, "python-exception", 0), "own_raise", "no");
}

static void text_run_by_exec_is_not_the_programs(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n"
               "\n"
               "  File /opt/lib/python3.10/site-packages/IPython/core/x.py:3553 in run_code\n"
               "    exec(code_obj, self.user_global_ns, self.user_ns)\n"
               "\n"
               "  Cell In[16], line 1\n"
               "    from unsloth import FastLanguageModel\n"
               "\n"
               "  File /opt/lib/python3.10/site-packages/unsloth/models/_utils.py:209\n"
               "    exec(source)\n"
               "\n"
               "  File <string>:25\n"
               "    )if len(self) == 0:\n"
               "                      ^\n"
               "SyntaxError: invalid syntax\n");
    const struct event *e = event_of_id(lf, "python-exception", 0);
    assert_capture(e, "own_raise", "no");
    assert_capture(e, "own_code", "from unsloth import FastLanguageModel");
}

static void ipython_frames_are_read(void **state)
{
    (void)state;
    expect_own("---------------------------------------------------------------------------\n"
               "TypeError                                 Traceback (most recent call last)\n"
               "Cell In[18], line 3\n"
               "      1 from trl import SFTTrainer\n"
               "----> 3 trainer = SFTTrainer(\n"
               "      4     model=model,\n"
               "\n"
               "File ~/venv/lib/python3.11/site-packages/transformers/utils/deprecation.py:165, in "
               "deprecate_kwarg.<locals>.wrapped_func(*args, **kwargs)\n"
               "    163     warnings.warn(message)\n"
               "--> 165 return func(*args, **kwargs)\n"
               "\n"
               "TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'x'\n",
               "Cell In[18]", "3", "trainer = SFTTrainer(");
    expect_own(
        "RuntimeError                              Traceback (most recent call last)\n"
        "<ipython-input-4-497ccf32130c> in <module>()\n"
        "----> 1 c(x)\n"
        "\n"
        "[/usr/lib/python3.10/dist-packages/torch/nn/modules/conv.py](https://localhost:8080/#) in "
        "forward(self, input)\n"
        "    307         return F.conv2d(input,\n"
        "--> 308                         self.padding)\n"
        "\n"
        "RuntimeError: cuDNN error\n",
        "<ipython-input-4-497ccf32130c>", "1", "c(x)");
}

static void rich_frames_are_read(void **state)
{
    (void)state;
    expect_own("╭──────────── Traceback (most recent call last) ────────────╮\n"
               "│ /w/src/finetune.py:88 in <module>                         │\n"
               "│                                                           │\n"
               "│   87 if __name__ == \"__main__\":                           │\n"
               "│ ❱ 88 │   main()                                           │\n"
               "│                                                           │\n"
               "│ /home/u/conda/envs/s/lib/python3.9/site-package           │\n"
               "│ s/torch/nn/functional.py:2238 in embedding                │\n"
               "│                                                           │\n"
               "│ ❱ 2238 │   return torch.embedding(weight, input)          │\n"
               "╰───────────────────────────────────────────────────────────╯\n"
               "IndexError: index out of range in self\n",
               "/w/src/finetune.py", "88", "main()");
}

static void a_traceback_in_an_indented_block_is_read(void **state)
{
    (void)state;
    expect_own("Same here:\n\n"
               "    Traceback (most recent call last):\n"
               "      File \"/w/train.py\", line 9, in main\n"
               "        loss.backward()\n"
               "    RuntimeError: boom\n\nany update?\n",
               "/w/train.py", "9", "loss.backward()");
}

static void a_traceback_without_its_head_is_read(void **state)
{
    (void)state;
    const char *log = "  File \"/w/train.py\", line 37, in main\n"
                      "    Trainer.add_args(parser)\n"
                      "AttributeError: type object 'Trainer' has no attribute 'add_args'\n";
    expect_own(log, "/w/train.py", "37", "Trainer.add_args(parser)");
    /* Frames of a warning: the lines behind them are no exception. */
    const struct log_facts *lf = log_of(arena, "from user code:\n"
                                               "   File \"/w/model.py\", line 5, in forward\n"
                                               "    y = x.item()\n"
                                               "INFO: epoch 1\n"
                                               "Note: epoch 2\n");
    assert_int_equal(log_facts_count(lf, "python-exception"), 0);
}

static void the_line_that_asks_for_a_missing_attribute_raises(void **state)
{
    (void)state;
    const char *log =
        "Traceback (most recent call last):\n"
        "  File \"/w/train.py\", line 4, in main\n"
        "    net.foo()\n"
        "  File \"/v/site-packages/torch/nn/modules/module.py\", line 9, in __getattr__\n"
        "    raise AttributeError(x)\n"
        "AttributeError: 'Net' object has no attribute 'foo'\n";
    const struct event *e = event_of_id(log_of(arena, log), "python-exception", 0);
    assert_capture(e, "own_raise", "yes");
    assert_capture(e, "own_code", "net.foo()");
    log = "Traceback (most recent call last):\n"
          "  File \"/w/train.py\", line 4, in main\n"
          "    fit()\n"
          "  File \"/v/site-packages/lib/fit.py\", line 9, in fit\n"
          "    net.foo()\n"
          "  File \"/v/site-packages/torch/nn/modules/module.py\", line 9, in __getattr__\n"
          "    raise AttributeError(x)\n"
          "AttributeError: 'Net' object has no attribute 'foo'\n";
    e = event_of_id(log_of(arena, log), "python-exception", 0);
    assert_capture(e, "own_raise", "no");
}

static void odd_frames_are_harmless(void **state)
{
    (void)state;
    static const char *const logs[] = {
        "Traceback (most recent call last):\n  File \"\n    \nValueError: x\n",
        "Traceback (most recent call last):\n│\nValueError: x\n",
        "Traceback (most recent call last):\n│ ❱\n---->\n---> \n----> 999999999999 x\nValueError: x\n",
        "Traceback (most recent call last):\n│ /a\n│ :in in in\n│ : in \nValueError: x\n",
        "Traceback (most recent call last):\nFile :, in\nFile x.py:1\nCell In[, line \nValueError: x\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        assert_int_equal(log_facts_count(log_of(arena, logs[i]), "python-exception"), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_frame_outside_of_packages_is_the_programs),
        cmocka_unit_test(a_traceback_of_packages_alone_names_no_line_of_the_program),
        cmocka_unit_test(a_first_frame_without_its_beginning_is_read),
        cmocka_unit_test(what_unsloth_writes_is_not_the_programs),
        cmocka_unit_test(frames_that_colab_folds_are_not_the_programs),
        cmocka_unit_test(text_run_by_exec_is_not_the_programs),
        cmocka_unit_test(ipython_frames_are_read),
        cmocka_unit_test(rich_frames_are_read),
        cmocka_unit_test(a_traceback_in_an_indented_block_is_read),
        cmocka_unit_test(a_traceback_without_its_head_is_read),
        cmocka_unit_test(the_line_that_asks_for_a_missing_attribute_raises),
        cmocka_unit_test(odd_frames_are_harmless),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
