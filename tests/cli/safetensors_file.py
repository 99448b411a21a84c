# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files for the tests, with the standard library alone."""
import json
import random
import struct

FORMS = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "I8": "b", "U8": "B", "BOOL": "?"}


def normal(count, seed=1, scale=0.05):
    generator = random.Random(seed)
    return [generator.gauss(0, scale) for _ in range(count)]


def save(path, tensors, metadata=None):
    """tensors: name to (dtype, shape, values), the values a list of numbers or bytes as they stand."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, values) in tensors.items():
        raw = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{FORMS[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def size(shape):
    n = 1
    for side in shape:
        n *= side
    return n


def weights(path, shapes):
    """shapes: name to shape; the values are normal."""
    save(path, {name: ("F32", shape, normal(size(shape), i)) for i, (name, shape) in enumerate(shapes.items())})
