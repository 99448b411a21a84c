# SPDX-License-Identifier: Apache-2.0
# Last part of the script that guard.py describes: one case, and the processes.


# ---- one case ----

def classify(error):
    """missing: this torch does not have it; fault, misaligned: the device is lost; else error."""
    text = str(error)
    low = text.lower()
    if isinstance(error, NotThisCase):
        return "not run"
    if isinstance(error, InstrumentError):
        return "instrument"
    if "misaligned address" in low:
        return "misaligned"
    if any(w in low for w in ("illegal memory access", "hip error: illegal", "unspecified launch failure",
                              "device-side assert")):
        return "fault"
    if isinstance(error, (NotImplementedError, AttributeError, ImportError)):
        return "missing"
    if any(w in low for w in ("not implemented", "not supported", "no available kernel", "unsupported",
                              "is not available", "no viable backend", "does not require grad", "does not support",
                              "no kernel found")):
        return "missing"
    return "error"


def compare(torch, got, exact, tolerance):
    """Worst element of a user's kernel. The bound is the file's `tolerance` times the largest
    reference; without one, 16 roundings of the result's format."""
    got = got if isinstance(got, dict) else {"y": got}
    exact = exact if isinstance(exact, dict) else {"y": exact}
    worst = {"tensor": "", "index": "", "got": 0.0, "wanted": 0.0, "error": 0.0, "bound": 0.0, "bad": False}
    for name, wanted in exact.items():
        y = got[name].detach().to("cpu")
        if tuple(y.shape) != tuple(wanted.shape):
            return dict(worst, tensor=name, bad=True, shape=list(y.shape))
        if y.numel() == 0:
            continue
        scale = tolerance if tolerance is not None else 16 * torch.finfo(y.dtype).eps
        bound = scale * max(wanted.double().abs().max().item(), 1e-30)
        error = (y.double() - wanted.double()).abs().flatten()
        bad = bool((~(error <= bound)).any())
        error = torch.where(torch.isnan(error), torch.full_like(error, float("inf")), error)
        at = int(error.argmax())
        if bad > worst["bad"] or worst["tensor"] == "":
            rest, index = at, []
            for n in reversed(y.shape):
                index.insert(0, str(rest % n))
                rest //= n
            worst = {"tensor": name, "index": ",".join(index), "got": repr(y.flatten()[at].double().item()),
                     "wanted": repr(wanted.flatten()[at].double().item()), "error": repr(error[at].item()),
                     "bound": repr(bound), "bad": bad}
    return worst


def load_module(path):
    """Names of a Python file; it is registered as a module because Triton reads its source again."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("assay_kernel", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["assay_kernel"] = module
    spec.loader.exec_module(module)
    return vars(module)


class Worker:
    def __init__(self, torch, shared, shared_bytes, device, reply):
        self.torch, self.shared, self.shared_bytes = torch, shared, shared_bytes
        self.device, self.reply = device, reply
        self.record = FaultRecord.from_address(shared)
        self.guard = self.allocations = None
        if device != "cpu":
            # The allocator must be in place before the first allocation on the device.
            try:
                self.allocations = TorchAllocations(torch)
            except AttributeError:
                pass  # torch before 2.0
            torch.cuda.init()
            self.guard = GpuGuard(torch)
            if self.allocations:
                self.allocations.guard = self.guard
            torch.backends.cudnn.allow_tf32 = False  # float32 is tried as float32
        else:
            self.guard = CpuGuard()

    def verdict(self, error):
        word = classify(error)
        if word not in ("fault", "misaligned") and self.allocations and self.allocations.failure:
            return "instrument"
        return word

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
            self.allocations.side = request.get("outputs", request["guard"])
            self.allocations.failure = ""
        inputs, upstream = [], []
        step = "forward"
        self.record.step = 1
        try:
            inputs = self.place(request, request["inputs"])
            upstream = self.place(request, request.get("upstream", []))
            self.reply({"id": request["id"], "event": "placed",
                        "operands": [o.describe() for o in inputs + upstream]})
            named = {o.spec["name"]: o.tensor for o in inputs}
            chosen = find_way(request["op"], request["variant"])
            for o in inputs:
                o.spec["written"] = o.spec["name"] in chosen["writes"]
            started = time.perf_counter()
            outputs = chosen["run"](self.torch, named, request["attrs"])
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
            answer[step] = self.verdict(e)
            answer["message"] = "%s: %s" % (type(e).__name__, str(e).split("\nCUDA kernel errors")[0][:600])
        for o in inputs + upstream:
            o.release()
        return answer

    def run_module(self, request):
        """A user's own kernel: FILE defines inputs(torch), run(inputs), reference(inputs)."""
        answer = {"id": request["id"], "forward": "not run", "backward": "not run", "message": "", "results": []}
        torch = self.torch
        if self.allocations:
            self.allocations.side = request.get("outputs", request["guard"])
        self.record.step = 1
        operands = []
        try:
            module = load_module(request["module"])
            for name in ("inputs", "run", "reference"):
                if not callable(module.get(name)):
                    raise NotImplementedError("%s defines no function %s" % (request["module"], name))
            given, at, specs = {}, HEADER, []
            for name, tensor in module["inputs"](torch).items():
                given[name] = tensor.detach().to("cpu").contiguous()
                placed = []
                at = self.put(name, given[name], at, placed)
                strides, step = [], 1
                for n in reversed(placed[0]["shape"]):
                    strides.insert(0, step)
                    step *= n
                specs.append(dict(placed[0], stride=strides, written=name in module.get("writes", ())))
            operands = self.place(request, specs)
            self.reply({"id": request["id"], "event": "placed", "operands": [o.describe() for o in operands]})
            started = time.perf_counter()
            got = module["run"]({o.spec["name"]: o.tensor for o in operands})
            self.sync()
            answer["seconds"] = [time.perf_counter() - started, 0.0]
            exact = module["reference"]({n: x.double() if x.is_floating_point() else x for n, x in given.items()})
            answer["forward"] = "ok"
            answer["module"] = compare(torch, got, exact, module.get("tolerance"))
            complaints = [c for c in (o.complaint() for o in operands) if c]
            if complaints:
                answer["written"] = complaints[0]
        except Exception as e:
            answer["forward"] = self.verdict(e)
            answer["message"] = "%s: %s" % (type(e).__name__, str(e).split("\nCUDA kernel errors")[0][:600])
        for o in operands:
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
        lost = ("fault", "misaligned") if worker.device == "cpu" else ("fault", "misaligned", "instrument")
        answer["last"] = answer["forward"] in lost or answer["backward"] in lost
        worker.reply(answer)
        if answer["last"]:
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
             "addresses": handler, "variants": list_variants(device)}
    try:
        hello.update(prove(torch, device, record))
    except Exception as e:
        hello.update({"proven": False, "broken": True, "text": "%s: %s" % (type(e).__name__, e)})
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
