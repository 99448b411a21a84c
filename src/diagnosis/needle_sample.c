// SPDX-License-Identifier: Apache-2.0
/*
 * What ordinary logs are full of. Needles that occur here are poor ones; the text is written from
 * the formats of the frameworks, it judges nothing else.
 */
#include <math.h>
#include <string.h>

#include "base/attr.h"

#include "diagnosis/needle.h"

static const char sample[] =
    "{'loss': 1.2345, 'grad_norm': 0.873456, 'learning_rate': 4.9e-05, 'epoch': 0.02}\n"
    " 14%|#         | 85/600 [03:24<20:36,  2.40s/it, loss=0.112, lr=1e-5, avr_loss=0.08]\n"
    "steps:  2%| 6/2160 [00:01<00:02, 1.31it/s]\n"
    "[info|trainer.py:756] 2025-05-23 09:29:40,911 >> ***** running training *****\n"
    "[info|trainer.py:757] 2025-05-23 09:29:40,911 >>   num examples = 12,345 num epochs = 3\n"
    "[info|configuration_utils.py:698] loading configuration file config.json model config {\n"
    "  \"architectures\": [ \"hidden_size\": 4096, \"num_attention_heads\": 32, \"torch_dtype\"\n"
    "[info|tokenization_utils_base.py:2060] loading file tokenizer.json special tokens map\n"
    "[2025-04-11 09:02:11,201] [info] [axolotl.train] [pid:311] [rank:0] starting trainer\n"
    "[2025-03-02 09:10:11,118] [info] [logging.py:107:log_dist] [rank 0] step=10, skipped=0\n"
    "rank0: time (ms) | fwd: 12.3 | bwd: 33.1 | step: 8.1 samples per second\n"
    "iteration      100/   10000 | consumed samples:        25600 | elapsed time per iteration (ms): "
    "815.8 | throughput per gpu (tflop/s/gpu): 402.8 | learning rate: 1.5e-04 | global batch size: "
    "  256 | lm loss: 9.1e+00 | loss scale: 1.0 | grad norm: 1.9 | number of skipped iterations:   "
    "0 | number of nan iterations:   0 |\n"
    "step:  5  loss:  7.0213  grad_norm:  1.5000  memory:  1.00gib(2.00%)  tps: 1,234  mfu: 41%\n"
    "node:101:121 [0] nccl info channel 00/0 : 0[c1000] -> 1[c6000] via p2p/ipc comm 0x8a10\n"
    "node:101:101 [0] nccl info bootstrap : using eth0:192.0.2.4<0> net/socket ring tree\n"
    "info 06-11 10:05:01 [loggers.py:118] engine 000: avg prompt throughput: 812.1 tokens/s, avg "
    "generation throughput: 1411.0 tokens/s, running: 32 reqs, waiting: 0 reqs, gpu kv cache usage\n"
    "info:     192.0.2.3:51034 - \"post /v1/chat/completions http/1.1\" 200 ok\n"
    "debug request id=17 path=/v1/models status=200 bytes=512 connection cache module device\n"
    "/opt/venv/lib/python3.10/site-packages/transformers/trainer.py:123: userwarning: the model\n"
    "warning: not all parameters of the model are used, attention output with data and no error\n"
    "saving model checkpoint to output/checkpoint-500 saved tokenizer config file and weights\n"
    "map (num_proc=16): 100%|##########| 8800/8800 [00:12<00:00, 711.2 examples/s]\n"
    "loading checkpoint shards: 100%|##########| 4/4 [00:08<00:00,  1.94s/it]\n"
    "evaluation: eval_loss: 1.5 eval_runtime: 33.1 eval_samples_per_second: 12 epoch 3 of 10\n"
    "file \"/opt/venv/lib/python3.10/site-packages/torch/nn/modules/module.py\", line 1511, in "
    "_wrapped_call_impl return self._call_impl(*args, **kwargs) forward backward\n"
    "it was said that they were here before, because there is no other way to look at what had been "
    "expected by those who came first; she was not sure if it would have been better than the last, "
    "but he did as he was told and then went on with his work for the rest of the year 1990.\n"
    "/data/runs/part-00001.py import error handling info set status data/train.json options list\n"
    "the quick text of a training sample with words from the web, and a few numbers 123 456 789.\n"
    "using device: cuda rocm gpu memory allocated reserved free total batch size version 2.6.0\n";

double needle_commonness(const struct needle *needle)
{
    const unsigned char *text = needle->text;
    size_t n = needle->n;
    double weight = pow(12, -(double)(n < 10 ? n : 10));
    unsigned found = 0;
    const size_t size = sizeof sample - 1;
    for (size_t at = 0; at + n <= size; at++) {
        if (((unsigned char)sample[at] | 0x20) != text[0]) {
            continue;
        }
        size_t k = 1;
        while (k < n && ((unsigned char)sample[at + k] | 0x20) == text[k]) {
            k++;
        }
        unsigned char before = at != 0 ? (unsigned char)sample[at - 1] : '\n';
        found += k == n && byte_set_has(&needle->before, before) &&
                 byte_set_has(&needle->after, (unsigned char)sample[at + n]);
    }
    return weight + 0.01 * found;
}

const char *needle_sample(size_t *ret_n)
{
    *ret_n = sizeof sample - 1;
    return sample;
}
