#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for a Python with PyTorch: speaks the agent's protocol and misbehaves as $STUB says.

It is started like an interpreter (-u SCRIPT FD FD SHARED BYTES DEVICE) and ignores SCRIPT.
"""
import json
import os
import signal
import struct
import sys
import time

mode = os.environ.get("STUB", "ok")
request_fd, reply_fd, shared_fd = (int(a) for a in sys.argv[3:6])


def reply(message):
    os.write(reply_fd, (message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")


def read_line():
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(request_fd, 1)
        if not part:
            os._exit(0)
        line += part
    return json.loads(line)


def read_tensor(spec):
    """Rows of a matrix or a vector, whatever its strides."""
    data = os.pread(shared_fd, spec["bytes"], spec["offset"])
    flat = struct.unpack("<%d%s" % (len(data) // (8 if spec["dtype"] == "int64" else 4),
                                    "q" if spec["dtype"] == "int64" else "f"), data)
    if len(spec["shape"]) == 1:
        return list(flat)
    (rows, columns), (down, across) = spec["shape"], spec["stride"]
    return [list(flat[i * down:i * down + across * (columns - 1) + 1:across]) for i in range(rows)]


def embedding(request):
    """The one operator the stub knows, from the shared file: rows of a table and their gradients."""
    t = {spec["name"]: read_tensor(spec) for spec in request["inputs"] + request["upstream"]}
    weight = [[0.0] * len(row) for row in t["weight"]]
    for i, row in zip(t["ids"], t["y"]):
        if i != request["attrs"]["padding_idx"]:
            weight[i] = [a + b for a, b in zip(weight[i], row)]
    return {"y": [t["weight"][i] for i in t["ids"]], "dweight": weight}


def answer(request):
    at = request["results_at"]
    values = {name: [0.0] * shape[0] if len(shape) == 1 else [[0.0] * shape[1]] * shape[0]
              for name, shape in request.get("stub_results", [])} or embedding(request)
    results = []
    for name, rows in values.items():
        flat = [v for row in rows for v in row] if isinstance(rows[0], (list, tuple)) else rows
        shape = [len(rows), len(rows[0])] if isinstance(rows[0], (list, tuple)) else [len(rows)]
        data = struct.pack("<%df" % len(flat), *flat)
        os.pwrite(shared_fd, data, at)
        results.append({"name": name, "dtype": "float32", "shape": shape, "offset": at, "bytes": len(data)})
        at += (len(data) + 63) // 64 * 64
    return {"id": request["id"], "forward": "ok", "backward": "ok" if request.get("backward") else "not run",
            "message": "", "results": results, "seconds": [0.001, 0.001]}


def fault(request):
    """What the real agent's signal handler leaves behind: 8 bytes behind the first operand."""
    low = 0x10000
    reply({"id": request["id"], "event": "placed", "operands": [
        {"name": "x", "address": low + 4096 - 64, "bytes": 64, "low": low, "high": low + 4096}]})
    os.pwrite(shared_fd, struct.pack("<iiQQQ", 11, 0, low + 4096 + 8, 0x1234, 4), 0)
    reply("!")
    time.sleep(60)


def work(request):
    if mode == "hang":
        time.sleep(60)
    elif mode == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "exit":
        sys.stderr.write("terminate called after throwing\n")
        os._exit(7)
    elif mode == "garbage":
        reply("Traceback (most recent call last):")
        time.sleep(60)
    elif mode == "long":
        os.write(reply_fd, b"x" * (5 << 20))
        time.sleep(60)
    elif mode == "fault":
        fault(request)
    else:
        a = answer(request)
        if mode == "wrong-size":
            a["results"][0]["bytes"] += 4
        elif mode == "wrong-offset":
            a["results"][0]["offset"] = 1 << 40
        elif mode == "wrong-shape":
            a["results"][0]["shape"] = [1 << 40, 1 << 40]
        elif mode == "wrong-id":
            a["id"] += 1
        elif mode == "late":
            reply(dict(a, id=a["id"] - 1))  # of a request that is over
        elif mode == "lost":
            a["forward"], a["backward"], a["results"], a["last"] = "misaligned", "not run", [], True
            a["message"] = "AcceleratorError: CUDA error: misaligned address"
        elif mode == "no-backward":
            a["backward"], a["message"] = "missing", "NotImplementedError: \"bw\" not implemented for 'BFloat16'"
            a["results"] = a["results"][:1]
        elif mode == "instrument":
            a["forward"], a["backward"], a["results"] = "instrument", "not run", []
            a["message"] = "InstrumentError: cuMemMap failed with error 201"
        elif mode == "nan":
            os.pwrite(shared_fd, b"\xff" * 4, a["results"][0]["offset"])
        reply(a)
        if a.get("last"):
            os._exit(70)


def main():
    if mode == "no-torch":
        reply({"event": "hello", "python": "3.9.9", "error": "ModuleNotFoundError: No module named 'torch'"})
        return
    if mode == "no-hello":
        reply("hello")
        time.sleep(60)
    if mode == "silent":
        time.sleep(60)
    if mode == "die-early":
        sys.stderr.write("ImportError: libcudart.so.13\n")
        os.kill(os.getpid(), signal.SIGABRT)
    reply({"event": "hello", "python": "3.9.9", "executable": "stub", "torch": "0.stub", "cuda": "", "hip": "",
           "proven": mode not in ("unproven", "broken"), "broken": mode == "broken", "text": "planted", "variants": json.loads(os.environ.get("STUB_WAYS", "{}"))})
    while True:
        child = os.fork()
        if child == 0:
            reply({"event": "worker", "pid": os.getpid(), "device": "CPU", "guards_outputs": False})
            while True:
                work(read_line())
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return
        reply({"event": "ended", "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
               "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0})


main()
