# SPDX-License-Identifier: Apache-2.0
# Last part of the script that guard.py describes: one case, and the processes.


# ---- one case ----

def classify(error):
    """missing: this torch does not have it; fault: the device is lost; else error."""
    text = str(error)
    low = text.lower()
    if isinstance(error, NotThisCase):
        return "not run"
    if any(w in low for w in ("illegal memory access", "hip error: illegal", "unspecified launch failure",
                              "misaligned address", "device-side assert")):
        return "fault"
    if isinstance(error, (NotImplementedError, AttributeError, ImportError)):
        return "missing"
    if any(w in low for w in ("not implemented", "not supported", "no available kernel", "unsupported",
                              "is not available", "does not require grad", "does not support")):
        return "missing"
    return "error"


class Worker:
    def __init__(self, torch, shared, shared_bytes, device, reply):
        self.torch, self.shared, self.shared_bytes = torch, shared, shared_bytes
        self.device, self.reply = device, reply
        self.record = FaultRecord.from_address(shared)
        self.guard = self.allocations = None
        if device != "cpu":
            # The allocator must be in place before the first allocation on the device.
            try:
                torch.cuda.init()
                self.guard = GpuGuard(torch)
                self.allocations = TorchAllocations(torch, self.guard)
            except (AttributeError, RuntimeError, OSError) as e:
                self.guard_error = str(e)
        else:
            self.guard = CpuGuard()

    def sync(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def put(self, name, tensor, at, ret):
        """Writes one result into the shared file; returns the next free offset."""
        data = tensor.detach().to("cpu").contiguous()
        size = data.numel() * data.element_size()
        if at + size > self.shared_bytes:
            raise MemoryError("the results of this case do not fit into the shared file")
        ctypes.memmove(self.shared + at, data.data_ptr(), size)
        ret.append({"name": name, "dtype": str(data.dtype).replace("torch.", ""),
                    "shape": list(data.shape), "offset": at, "bytes": size})
        return (at + size + 63) // 64 * 64

    def place(self, request, specs):
        only = request.get("only", "")
        operands = []
        for spec in specs:
            spec["device"] = self.device
            guarded = self.guard is not None and request["guard"] != "none" and only in ("", spec["name"])
            operands.append(Operand(self.torch, self.guard, spec, self.shared,
                                    request["guard"] if guarded else "none", request.get("pad", 0)))
        return operands

    def run(self, request):
        """Runs one case; the answer says how far it came."""
        answer = {"id": request["id"], "forward": "not run", "backward": "not run", "message": "", "results": []}
        if self.allocations:
            self.allocations.side = request["guard"]
        inputs = self.place(request, request["inputs"])
        upstream = self.place(request, request.get("upstream", []))
        self.reply({"id": request["id"], "event": "placed", "operands": [o.describe() for o in inputs + upstream]})
        named = {o.spec["name"]: o.tensor for o in inputs}
        step = "forward"
        self.record.step = 1
        try:
            function = find_variant(request["op"], request["variant"])
            started = time.perf_counter()
            outputs = function(self.torch, named, request["attrs"])
            self.sync()
            answer["seconds"] = [time.perf_counter() - started, 0.0]
            if not isinstance(outputs, dict):
                outputs = {"y": outputs}
            at = request["results_at"]
            for name, tensor in outputs.items():
                at = self.put(name, tensor, at, answer["results"])
            answer["forward"] = "ok"
            if request.get("backward"):
                step = "backward"
                self.record.step = 2
                self.backward(answer, inputs, upstream, outputs, at)
            complaints = [c for c in (o.complaint() for o in inputs + upstream) if c]
            if complaints:
                answer["written"] = complaints[0]
        except Exception as e:
            answer[step] = classify(e)
            answer["message"] = "%s: %s" % (type(e).__name__, str(e).split("\nCUDA kernel errors")[0][:600])
        for o in inputs + upstream:
            o.release()
        return answer

    def backward(self, answer, inputs, upstream, outputs, at):
        leaves = [o for o in inputs if o.spec.get("grad")]
        given = {o.spec["name"]: o.tensor for o in upstream}
        pairs = [(outputs[n], g) for n, g in given.items() if n in outputs]
        for y, _ in pairs:
            if not y.requires_grad:
                raise NotImplementedError("the result does not require grad: no derivative is registered")
        started = time.perf_counter()
        grads = self.torch.autograd.grad([y for y, _ in pairs], [o.tensor for o in leaves],
                                         [g.to(y.dtype) for y, g in pairs], allow_unused=True)
        self.sync()
        answer["seconds"][1] = time.perf_counter() - started
        for o, g in zip(leaves, grads):
            if g is None:
                raise NotImplementedError("no gradient comes back for %s" % o.spec["name"])
            at = self.put("d" + o.spec["name"], g, at, answer["results"])
        answer["backward"] = "ok"


# ---- processes ----

def read_line(fd):
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(fd, 1 << 16)
        if not part:
            return None
        line += part
    return line


def serve(worker, request_fd):
    """Requests one at a time until assay closes the pipe; a lost device ends the process."""
    while True:
        line = read_line(request_fd)
        if line is None:
            return
        request = json.loads(line)
        answer = worker.run_module(request) if request.get("module") else worker.run(request)
        worker.reply(answer)
        if "fault" in (answer["forward"], answer["backward"]):
            os._exit(70)


def main():
    request_fd, reply_fd, shared_fd, shared_bytes = (int(a) for a in sys.argv[1:5])
    device = sys.argv[5]

    def reply(message):
        os.write(reply_fd, (json.dumps(message) + "\n").encode())

    os.dup2(2, 1)  # whatever torch prints is no answer
    try:
        import torch
    except BaseException as e:
        reply({"event": "hello", "error": "%s: %s" % (type(e).__name__, e), "python": sys.version.split()[0],
               "executable": sys.executable})
        return 0
    shared = libc.mmap(None, shared_bytes, WRITABLE, 1, shared_fd, 0)
    record = FaultRecord.from_address(shared)
    record.text = b"!\n"
    handler = install_fault_handler(record)
    hello = {"event": "hello", "python": sys.version.split()[0], "executable": sys.executable,
             "torch": torch.__version__, "cuda": torch.version.cuda or "", "hip": torch.version.hip or "",
             "addresses": handler, "variants": list_variants(torch)}
    try:
        hello.update(prove(torch, device, record))
    except Exception as e:
        hello.update({"proven": False, "text": "%s: %s" % (type(e).__name__, e)})
    reply(hello)
    record.fd = reply_fd
    while True:
        record.signal = 0
        pid = os.fork()
        if pid == 0:
            libc.prctl(1, 9)
            worker = Worker(torch, shared, shared_bytes, device, reply)
            name = "CPU" if device == "cpu" else torch.cuda.get_device_name(0)
            reply({"event": "worker", "pid": os.getpid(), "device": name,
                   "guarded": worker.guard is not None, "guards_outputs": worker.allocations is not None})
            serve(worker, request_fd)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return 0
        reply({"event": "ended", "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
               "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0})


if __name__ == "__main__":
    sys.exit(main())
