#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny model with the `gguf` package, laid out as llama.cpp's converter lays out a Hugging Face model.

usage: make_gguf_model.py FILE llama|qwen2|qwen3

Row r of every q_proj and k_proj is ((layer + 1) * 1000 + r) / 65536 throughout before the converter's interleaving,
so that a reader can say where each row came from; the other matrices are quantised.
"""
import sys

import gguf
import numpy as np

HIDDEN, INNER, LAYERS, HEADS, KV, VOCAB = 32, 64, 2, 4, 2, 272
DIM = HIDDEN // HEADS
MERGES = ["h e", "Ġ t", "Ġt he", "i n", "1 2", "e r", "o n", "Ġ a", "r e", "a t", "i s", "o r"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CUT = {"llama": "smollm", "qwen2": "qwen2", "qwen3": "qwen2"}


def alphabet():
    """The 256 characters of the byte-level alphabet, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, more = [], 0
    for b in range(256):
        out.append(chr(b if b in plain else 256 + more))
        more += b not in plain
    return out


def interleave(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def main():
    path, arch = sys.argv[1:3]
    r = np.random.default_rng(7)
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(LAYERS)
    w.add_context_length(128)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    if arch == "qwen3":
        w.add_key_length(DIM)
        w.add_value_length(DIM)
    tokens = SPECIAL + alphabet() + [m.replace(" ", "") for m in MERGES]
    tokens += [f"[PAD{i}]" for i in range(len(tokens), VOCAB)]
    kinds = [3] * len(SPECIAL) + [1] * (256 + len(MERGES))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(CUT[arch])
    w.add_token_list(tokens)
    w.add_token_types(kinds + [5] * (VOCAB - len(kinds)))
    w.add_token_merges(MERGES)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(arch == "llama")

    def put(name, x, kind="F32"):
        q = gguf.GGMLQuantizationType[kind]
        w.add_tensor(name, gguf.quantize(x.astype("f4"), q) if kind != "F32" else x.astype("f4"), raw_dtype=q)

    def some(*shape):
        return r.standard_normal(shape).astype("f4") * .05

    put("token_embd.weight", some(VOCAB, HIDDEN), "Q8_0")
    for i in range(LAYERS):
        b = f"blk.{i}."
        put(b + "attn_norm.weight", 1 + some(HIDDEN))
        for name, heads in (("q", HEADS), ("k", KV)):
            x = np.repeat(((i + 1) * 1000 + np.arange(heads * DIM, dtype="f4")[:, None]) / 65536, HIDDEN, 1)
            bias = np.arange(heads * DIM, dtype="f4") / 65536
            if arch == "llama":
                x, bias = interleave(x, heads), interleave(bias, heads)
            put(f"{b}attn_{name}.weight", x)
            if arch == "qwen2":
                put(f"{b}attn_{name}.bias", bias)
            if arch == "qwen3":
                put(f"{b}attn_{name}_norm.weight", 1 + some(DIM))
        put(b + "attn_v.weight", some(KV * DIM, HIDDEN), "Q4_1")
        if arch == "qwen2":
            put(b + "attn_v.bias", some(KV * DIM))
        put(b + "attn_output.weight", some(HIDDEN, HIDDEN), "Q4_1")
        put(b + "ffn_norm.weight", 1 + some(HIDDEN))
        put(b + "ffn_gate.weight", some(INNER, HIDDEN), "Q8_0")
        put(b + "ffn_up.weight", some(INNER, HIDDEN), "Q4_0")
        put(b + "ffn_down.weight", some(HIDDEN, INNER), "Q5_1")
    put("output_norm.weight", 1 + some(HIDDEN))
    if arch == "qwen3":
        put("output.weight", some(VOCAB, HIDDEN), "Q8_0")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
