// SPDX-License-Identifier: Apache-2.0
/* Metrics in columns: the header names them once. */
#include <math.h>
#include <string.h>

#include "diagnosis/framing.h"
#include "diagnosis/metric_table.h"
#include "unit.h"

static struct metric_line read_line;

static bool row(struct metric_table *t, const char *line)
{
    return metric_table_read(t, str_of(line), &read_line);
}

static double value(const char *name)
{
    for (size_t i = 0; i < read_line.count; i++) {
        if (strcmp(read_line.items[i].name, name) == 0) {
            return read_line.items[i].value;
        }
    }
    fail_msg("the row has no %s", name);
    return 0;
}

static void assert_near(double have, double want)
{
    assert_true(fabs(have - want) <= 1e-9 * fabs(want));
}

static void columns_are_named_by_the_header_before_them(void **state)
{
    (void)state;
    struct metric_table t = {0};
    assert_false(row(&t, "1,2.5,0.5"));
    assert_false(row(&t, "step,loss,grad_norm,lr,step_time"));
    assert_true(row(&t, "7,2.5,0.5,1e-4,0.25"));
    assert_near(value("loss"), 2.5);
    assert_near(value("grad_norm"), 0.5);
    assert_near(value("step_time"), 0.25);
    assert_int_equal(read_line.step, 7);
    assert_false(row(&t, "a line of prose, with two commas, between"));
    assert_false(row(&t, "7,2.5"));
    assert_true(row(&t, "8,nan,,1e-4,0.25")); /* a value that was not taken */
    assert_true(isnan(value("loss")));
    t = (struct metric_table){0};
    assert_false(row(&t, "\"_step\",\"train/loss\",\"val/loss\""));
    assert_true(row(&t, "\"3\",\"1.5\",\"\""));
    assert_near(value("loss"), 1.5);
    assert_int_equal(read_line.step, 3);
    assert_false(row(&t, "\"4\",\"\",\"high\""));
}

static void tables_of_spaces_and_tabs_are_read(void **state)
{
    (void)state;
    struct metric_table t = {0};
    assert_false(row(&t, "Step\tTraining Loss\tValidation Loss"));
    assert_true(row(&t, "10\t2.125000\t2.250000"));
    assert_near(value("loss"), 2.125);
    assert_near(value("eval_loss"), 2.25);
    t = (struct metric_table){0};
    assert_false(row(&t, "epoch     train_loss  valid_loss  accuracy  time    "));
    assert_true(row(&t, "0         1.250000    1.500000    0.812500  00:05     "));
    assert_near(value("loss"), 1.25);
    t = (struct metric_table){0};
    assert_false(
        row(&t, "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"));
    assert_true(row(
        &t,
        "      1/100      4.52G      1.125        nan      0.875         22        640:  50%|##  | 5/10 "
        "[00:01<00:01,  4.00it/s]"));
    assert_near(value("box_loss"), 1.125);
    assert_true(isnan(value("cls_loss")));
    assert_false(
        row(&t, "                 Class     Images  Instances      Box(P          R      mAP50"));
    assert_false(
        row(&t, "                   all          4         17      0.535      0.471      0.512"));
}

static void prose_is_no_header(void **state)
{
    (void)state;
    static const char *const lines[] = {"the loss, which is high, grows", "loss",
                                        "config: loss, accuracy",
                                        "gradients and loss, weights", "training with loss=mse, lr=3",
                                        "we watched the loss of many runs, and of one"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct metric_table t = {0};
        assert_false(row(&t, lines[i]));
        assert_false(row(&t, "1, 2, 3"));
        assert_false(row(&t, "1, 2"));
    }
}

static void colours_are_taken_out_of_a_line(void **state)
{
    (void)state;
    char text[] = "\033[31mstep:  1  \033[32mloss:  7.0\033[39m\033";
    size_t n = framing_strip(text, sizeof text - 1);
    assert_int_equal(n, strlen("step:  1  loss:  7.0"));
    assert_memory_equal(text, "step:  1  loss:  7.0", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_named_by_the_header_before_them),
        cmocka_unit_test(tables_of_spaces_and_tabs_are_read),
        cmocka_unit_test(prose_is_no_header),
        cmocka_unit_test(colours_are_taken_out_of_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
