# SPDX-License-Identifier: Apache-2.0
"""Work on three streams that hand tensors to each other and free them at once, so that memory which is reused too
early shows as other numbers. Prints a digest of every number computed, of sums and of products; they are the same
in every run. usage: h200_streams.py [ROUNDS]"""
import hashlib
import sys

import torch

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
torch.manual_seed(0)
streams = [torch.cuda.Stream() for _ in range(3)]
state = [torch.randn(1000 + 7 * i, device="cuda") for i in range(3)]
weights = [torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
rows = [torch.randn(96 + 16 * i, 256, device="cuda", dtype=torch.bfloat16) for i in range(3)]
torch.cuda.synchronize()
sums, products = hashlib.sha256(), hashlib.sha256()


def take(digest, tensor):
    digest.update(bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).tolist()))


for r in range(rounds):
    handed, ready = [], []
    for i, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            for size in (1 << 10, 3 << 12, 5 << 14):  # blocks that live for two calls
                scratch = torch.full((size + r,), float(r), device="cuda")
                state[i] += scratch[: state[i].numel()].mul_(1e-3)
                del scratch
            rows[i] = torch.nn.functional.layer_norm(rows[i] @ weights[i], (256,))
            handed.append(state[i] * 2)
            event = torch.cuda.Event()
            event.record(stream)
            ready.append(event)
    for i, stream in enumerate(streams):
        other = (i + 1) % 3
        with torch.cuda.stream(stream):
            stream.wait_event(ready[other])
            n = min(state[i].numel(), handed[other].numel())
            state[i][:n] = state[i][:n] * 0.5 + handed[other][:n] * 0.25
            handed[other].record_stream(stream)
    del handed
    if r % 20 == 0:
        torch.cuda.synchronize()
        for i in range(3):
            take(sums, state[i])
            take(products, rows[i].float())
torch.cuda.synchronize()
print("sums", sums.hexdigest()[:16], "products", products.hexdigest()[:16], "last", f"{state[0][0].item():.9g}")
