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
    "step 12 has been done, rank 3 is ready, worker 0 has no more work and 4 workers are waiting\n"
    "futurewarning: argument 2 has no effect and will be removed in version 5.0; use the other one\n"
    "/usr/lib/python3/dist-packages/tqdm/auto.py:21: tqdmwarning: iprogress not found. please update\n"
    "wandb: tracking run with wandb version 0.19.1; run data is saved locally in /data/wandb/run-2025\n"
    "wandb: view project at https://wandb.example/team/project and run \"wandb offline\" to turn off\n"
    "downloading model.safetensors: 100%|####| 4.98g/4.98g [01:12<00:00, 68.9mb/s] etag 9f3c51e0\n"
    "i0101 12:00:00.123456 4012 dataset.cc:88] read 4012 records from file-012.arrow, queue 3/64\n"
    "[2025-01-02 10:00:00,123] [info] [stage_1_and_2.py:149:__init__] reduce bucket size 500000000\n"
    "> building indices for blendable datasets ... > loading document index from .idx.npy, total docs\n"
    "time to initialize megatron (seconds): 7.5 [after megatron is initialized] datetime: 2025-01-02\n"
    "memory (mb) | allocated: 4012.5 | max allocated: 6012.1 | reserved: 7012.0 | max reserved: 7012\n"
    "info: started server process [17], waiting for application startup, api_server.py listening on\n"
    "checkpoint shards cached in /root/.cache/huggingface/hub/models--org--name/snapshots/0a1b2c3d\n"
    "environment: path=/usr/local/bin:/usr/bin home=/root user=root host=node-12 gpus=8 nodes=4\n"
    "once upon a time there lived an old man with his wife in a small house near the forest, and they\n"
    "had neither children nor money enough for more than one meal a day. question: what is the answer\n"
    "to this problem? please explain step by step how you would solve it, then give the final result.\n"
    "the function returns the number of elements in the list; if there are none, it returns zero and\n"
    "the caller should check that value before using it. for each of these cases we can see that all\n"
    "of them have the same structure as the first example, which means that nothing else must change.\n"
    "import numpy as np def main(): return x for x in range(10) if x is not none else self.value = 1\n"
    "after that she went to the market, where people were talking about the weather and the new king;\n"
    "some thought things would become better under him while others feared that they would get worse.\n"
    "it is possible to use this method when the input has been sorted in advance or when its size is\n"
    "small; otherwise another approach should be preferred because of the time that would be needed.\n"
    "system: you are a helpful assistant. user: write a short story about a dog who wants to fly high\n"
    "in 1905 the company was founded by two brothers from the north of the country and had 12 workers\n"
    "packed 512 samples into 128 sequences of 4096 tokens; sample 3 tokens 812, total tokens 524288\n"
    "max_tokens: 512, input tokens = 1024, tokens per step 16384, prompt_tokens=12 num_tokens 4e+06\n"
    "using device: cuda rocm gpu memory allocated reserved free total batch size version 2.6.0\n";

double needle_commonness(const struct needle *needle)
{
    const unsigned char *text = needle->text;
    size_t n = needle->n;
    double weight = pow(12, -(double)(n < 10 ? n : 10));
    unsigned found = 0;
    const size_t size = sizeof sample - 1;
    for (size_t at = 0; at + n <= size; at++) {
        if (needle_fold((unsigned char)sample[at]) != text[0]) {
            continue;
        }
        size_t k = 1;
        while (k < n && needle_fold((unsigned char)sample[at + k]) == text[k]) {
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
