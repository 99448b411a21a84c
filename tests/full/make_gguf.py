#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF file with the `gguf` package: a tensor of each type, and beside each its values.

usage: make_gguf.py FILE [ROWS]

A tensor "Q4_K" comes with "Q4_K.expected", float32, which is what the package's own dequantize() makes
of it. Blocks are random bytes with scales of ordinary size. Keys of every kind stand in front.
"""
import sys

import gguf
import numpy as np

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
          "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"]
# Where the float16 scales of a block stand.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,),
          "IQ1_M": (), "MXFP4": (), "NVFP4": ()}


def main():
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    r = np.random.default_rng(5)
    w = gguf.GGUFWriter(sys.argv[1], "llama")
    w.add_uint32("llama.block_count", 2)
    w.add_uint64("test.u64", 2**40)
    w.add_int8("test.i8", -5)
    w.add_int64("test.i64", -(2**40))
    w.add_float32("test.f32", 1e-5)
    w.add_float64("test.f64", 0.1)
    w.add_bool("test.bool", True)
    w.add_string("test.text", "ein Übel")
    w.add_array("test.integers", [1, -2, 3])
    w.add_array("test.reals", [0.5, -1.5])
    w.add_array("tokenizer.ggml.tokens", ["<s>", "Ġworld", "é"])
    for name in ("F32", "F16", "F64"):
        x = (r.standard_normal((rows, 32)) * .1).astype({"F32": "f4", "F16": "f2", "F64": "f8"}[name])
        w.add_tensor(name, x)
        w.add_tensor(f"{name}.expected", x.astype("f4"))
    for name in ("I8", "I16", "I32", "I64"):
        x = r.integers(-100, 100, (rows, 32)).astype(f"int{name[1:]}")
        w.add_tensor(name, x)
        w.add_tensor(f"{name}.expected", x.astype("f4"))
    x = gguf.quantize((r.standard_normal((rows, 32)) * .1).astype("f4"), gguf.GGMLQuantizationType.BF16)
    w.add_tensor("BF16", x, raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.add_tensor("BF16.expected", gguf.dequantize(x, gguf.GGMLQuantizationType.BF16))
    for name in BLOCKS:
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = r.integers(0, 256, (rows, 2, size), dtype=np.uint8)
        for at in SCALES.get(name, (0,)):
            scale = (r.standard_normal((rows, 2, 1)) * .01).astype("f2")
            blocks[:, :, at:at + 2] = scale.view(np.uint8)
        if name == "IQ1_M":  # the scale's four bits at a time, above the small scales
            bits = (r.standard_normal((rows, 2)) * .01).astype("f2").view(np.uint16)
            for i in range(4):
                blocks[:, :, 49 + 2 * i] = (bits >> 4 * i & 15) << 4 | blocks[:, :, 49 + 2 * i] & 15
        if name == "MXFP4":  # exponents, the smallest two among them
            blocks[:, :, 0] = r.choice([0, 1, 2, 100, 127, 130], (rows, 2))
        raw = blocks.reshape(rows, 2 * size)
        w.add_tensor(name, raw, raw_dtype=kind)
        w.add_tensor(f"{name}.expected", gguf.dequantize(raw, kind).astype("f4"))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
