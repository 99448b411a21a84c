# SPDX-License-Identifier: Apache-2.0
"""The part of `assay probe --torch` that runs inside the user's Python.

assay starts it as  PYTHON -u SCRIPT REQUEST_FD REPLY_FD SHARED_FD SHARED_BYTES DEVICE.  One process
imports torch and then only forks workers; a worker takes requests (one JSON object a line) and dies
of what it finds, which costs the next one no import. Tensors travel in the shared file: assay writes
the inputs there, the worker copies them into guarded memory, runs the operator with the user's torch,
and writes outputs and gradients back. assay holds the references and judges; nothing here compares.

Guarded memory: an operand ends at (or begins after) a page that nobody may touch. On the CPU a fault
is written into the first bytes of the shared file by a signal handler made of a few machine
instructions, which then waits, so that assay can read /proc/PID/maps of the faulting process.
Replies: {"event": "hello"|"worker"|"ended", ...}, {"id": n, ...}, or "!" alone for such a fault.
Python 3.8 or newer, torch 1.13 or newer, no numpy.
"""
import ctypes
import json
import mmap
import os
import sys
import time

sys.path.pop(0)  # the folder of this script; the user's own paths stay

HEADER = 4096  # of the shared file: the fault record
WRITABLE, NOTHING = 3, 0
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


# ---- the fault record: what happened where, readable after the process is gone ----

class FaultRecord(ctypes.Structure):
    """At offset 0 of the shared file. step: 1 in the forward, 2 in the backward pass."""
    _fields_ = [("signal", ctypes.c_int32), ("step", ctypes.c_int32), ("address", ctypes.c_uint64),
                ("instruction", ctypes.c_uint64), ("error", ctypes.c_uint64),
                ("fd", ctypes.c_int32), ("text", ctypes.c_char * 4)]


class SigAction(ctypes.Structure):
    """struct sigaction of glibc on x86-64."""
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_uint64 * 16), ("flags", ctypes.c_int),
                ("restorer", ctypes.c_void_p)]


def install_fault_handler(record):
    """SIGSEGV and its kin fill `record`, write its text to its fd, and wait to be killed.

    A Python or ctypes callback cannot do this: the thread that faults may not hold the interpreter.
    """
    if os.uname().machine != "x86_64":
        return False
    code = (b"\x48\xb8" + ctypes.addressof(record).to_bytes(8, "little") +  # mov rax, record
            b"\x89\x38"                            # mov [rax], edi           signal
            b"\x48\x8b\x4e\x10\x48\x89\x48\x08"    # rcx = si_addr;           [rax+8] = rcx
            b"\x48\x8b\x8a\xa8\x00\x00\x00\x48\x89\x48\x10"  # rcx = RIP of ucontext; [rax+16] = rcx
            b"\x48\x8b\x8a\xc0\x00\x00\x00\x48\x89\x48\x18"  # rcx = ERR of ucontext; [rax+24] = rcx
            b"\x8b\x78\x20\x48\x8d\x70\x24"        # edi = [rax+32]; rsi = rax+36
            b"\xba\x02\x00\x00\x00\xb8\x01\x00\x00\x00\x0f\x05"  # write(edi, rsi, 2)
            b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7")  # for (;;) pause()
    anonymous_private = 0x22
    page = libc.mmap(None, mmap.PAGESIZE, WRITABLE, anonymous_private, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        return False
    ctypes.memmove(page, code, len(code))
    if libc.mprotect(page, mmap.PAGESIZE, 5) != 0:  # read and execute
        return False
    action = SigAction(handler=page, flags=4)  # SA_SIGINFO
    for number in (4, 7, 8, 11):  # SIGILL, SIGBUS, SIGFPE, SIGSEGV
        libc.sigaction(number, ctypes.byref(action), None)
    return True


# ---- tensors over memory that we own ----

class DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DLTensor(ctypes.Structure):
    """dlpack.h of DLPack 0.8 and earlier ("dltensor" capsules), which every torch reads."""
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class DLManaged(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


DL_CODES = {"int64": (0, 64), "int32": (0, 32), "int16": (0, 16), "int8": (0, 8), "uint8": (1, 8),
            "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16)}
CAPSULE_NAME = b"dltensor"  # PyCapsule_New keeps the pointer
kept = []  # torch holds the addresses of these for the life of the process


def tensor_at(torch, address, dtype, shape, strides, device):
    """A tensor over `address`, without a copy; strides in elements."""
    as_bytes = dtype == "bool"
    code, bits = DL_CODES["uint8" if as_bytes else dtype]
    managed = DLManaged()
    n = len(shape)
    sizes, steps = (ctypes.c_int64 * max(n, 1))(*shape), (ctypes.c_int64 * max(n, 1))(*strides)
    kind = 1 if device == "cpu" else (10 if torch.version.hip else 2)
    managed.tensor = DLTensor(address, DLDevice(kind, 0), n, code, bits, 1, sizes, steps, 0)
    kept.append((managed, sizes, steps))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    t = torch.utils.dlpack.from_dlpack(new(ctypes.addressof(managed), CAPSULE_NAME, None))
    return t.view(torch.bool) if as_bytes else t


class CpuGuard:
    """Mappings with a hole on both sides, kept by size and used again."""
    unit = mmap.PAGESIZE
    alignment = 1

    def __init__(self):
        self.free = {}

    def take(self, size):
        """Address and size of writable memory between two holes."""
        usable = max(self.unit, -(-size // self.unit) * self.unit)
        if self.free.get(usable):
            return self.free[usable].pop(), usable
        anonymous_private_noreserve = 0x4022
        base = libc.mmap(None, usable + 2 * self.unit, NOTHING, anonymous_private_noreserve, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value) or libc.mprotect(base + self.unit, usable, WRITABLE) != 0:
            raise InstrumentError("cannot map %d guarded bytes: %s" % (usable, os.strerror(ctypes.get_errno())))
        return base + self.unit, usable

    def give(self, address, usable):
        self.free.setdefault(usable, []).append(address)

    def fill(self, address, value, size):
        ctypes.memset(address, value, size)

    def upload(self, address, source, size):
        ctypes.memmove(address, source, size)

    def download(self, address, size):
        return ctypes.string_at(address, size)


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp; hipMemAllocationProp has the same members in the same places."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_uint8 * 8)]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


GPU_NAMES = {  # ours: (CUDA driver, HIP)
    "granularity": ("cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"),
    "reserve": ("cuMemAddressReserve", "hipMemAddressReserve"),
    "create": ("cuMemCreate", "hipMemCreate"),
    "map": ("cuMemMap", "hipMemMap"),
    "access": ("cuMemSetAccess", "hipMemSetAccess"),
    "fill": ("cuMemsetD8_v2", "hipMemset"),
    "upload": ("cuMemcpyHtoD_v2", "hipMemcpyHtoD"),
    "download": ("cuMemcpyDtoH_v2", "hipMemcpyDtoH"),
}


class InstrumentError(RuntimeError):
    """Our own guard could not do its work; never a verdict about an operator."""


class CudaContext:
    """The driver calls of CUDA need the context of torch to be current in the calling thread, which may
    be one of autograd's. HIP does this by itself."""

    def __init__(self, lib, device):
        self.lib, self.handle = lib, ctypes.c_void_p()
        for code in (lib.cuInit(0), lib.cuDevicePrimaryCtxRetain(ctypes.byref(self.handle), device)):
            if code != 0:
                raise InstrumentError("the CUDA context of device %d cannot be had: error %d" % (device, code))

    def enter(self):
        current = ctypes.c_void_p()
        if self.lib.cuCtxGetCurrent(ctypes.byref(current)) != 0 or not current.value:
            self.lib.cuCtxSetCurrent(self.handle)


def gpu_functions(torch):
    """The virtual-memory functions of the runtime that this torch uses."""
    hip = torch.version.hip is not None
    if hip:
        library = None
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if "libamdhip64.so" in line:
                    library = line.split(None, 5)[5].strip()
        library = library or "libamdhip64.so"
    else:
        library = "libcuda.so.1"
    lib = ctypes.CDLL(library)

    context = None if hip else CudaContext(lib, torch.cuda.current_device())

    def bind(name):
        function = getattr(lib, GPU_NAMES[name][hip])

        def call(*arguments):
            if context:
                context.enter()
            code = function(*arguments)
            if code != 0:
                raise InstrumentError("%s failed with error %d" % (GPU_NAMES[name][hip], code))
        return call
    return {name: bind(name) for name in GPU_NAMES}


class GpuGuard:
    """The same with CUDA or HIP virtual memory: more addresses are reserved than are mapped."""
    alignment = 16  # what torch promises its kernels at the very least

    def __init__(self, torch):
        self.free = {}
        self.call = gpu_functions(torch)
        self.where = Location(1, torch.cuda.current_device())
        self.prop = AllocationProp(1, 0, self.where)
        unit = ctypes.c_size_t()
        self.call["granularity"](ctypes.byref(unit), ctypes.byref(self.prop), ctypes.c_int(0))
        self.unit = unit.value

    def take(self, size):
        usable = max(self.unit, -(-size // self.unit) * self.unit)
        if self.free.get(usable):
            return self.free[usable].pop(), usable
        base, handle, none = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64(0)
        size_t = ctypes.c_size_t
        self.call["reserve"](ctypes.byref(base), size_t(usable + 2 * self.unit), size_t(0), none, none)
        self.call["create"](ctypes.byref(handle), size_t(usable), ctypes.byref(self.prop), none)
        at = base.value + self.unit
        self.call["map"](ctypes.c_uint64(at), size_t(usable), size_t(0), handle, none)
        access = AccessDesc(self.where, 3)
        self.call["access"](ctypes.c_uint64(at), size_t(usable), ctypes.byref(access), size_t(1))
        return at, usable

    def give(self, address, usable):
        self.free.setdefault(usable, []).append(address)

    def fill(self, address, value, size):
        self.call["fill"](ctypes.c_uint64(address), value, ctypes.c_size_t(size))

    def upload(self, address, source, size):
        self.call["upload"](ctypes.c_uint64(address), ctypes.c_void_p(source), ctypes.c_size_t(size))

    def download(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call["download"](data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw


class TorchAllocations:
    """Everything else that torch allocates on the GPU (outputs, gradients, workspaces), guarded too.

    Possible since torch 2.0, which takes the addresses of two functions as its allocator; on the CPU
    there is no such way, so there outputs are not guarded.
    """

    def __init__(self, torch):
        """Before CUDA starts; `guard` is set before the first allocation."""
        self.guard, self.side, self.live = None, "none", {}
        self.failure = ""  # of our own calls: torch only learns that there is no memory
        take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self.functions = take(self.allocate), give(self.release)
        at = [ctypes.cast(f, ctypes.c_void_p).value for f in self.functions]
        self.allocator = torch._C._cuda_customAllocator(at[0], at[1])
        torch._C._cuda_changeCurrentAllocator(self.allocator)

    def allocate(self, size, _device, _stream):
        aligned = -(-size // self.guard.alignment) * self.guard.alignment
        room = 0 if self.side in ("end", "begin") else self.guard.unit
        try:
            at, usable = self.guard.take(size + 2 * room)
            self.guard.fill(at, 0xFF, usable)
        except RuntimeError as e:
            self.failure = str(e)
            return 0
        address = at + usable - aligned if self.side == "end" else at + room
        self.live[address] = (at, usable)
        return address

    def release(self, address, _size, _device, _stream):
        if address in self.live:
            self.guard.give(*self.live.pop(address))


class Operand:
    """One tensor of a case in guarded or ordinary memory."""
    CANARY = 0xFF  # a NaN in every floating-point format here

    def __init__(self, torch, guard, spec, shared, side, pad):
        self.spec, self.guard, self.side = spec, guard, side
        self.source = shared + spec["offset"]
        self.size = spec["bytes"]
        if side == "none" and guard is not None and spec["device"] != "cpu":
            side, pad = "begin", guard.unit  # far from both holes
            self.side = side
        if side == "none":
            self.low = self.usable = 0
            data = torch.frombuffer(bytearray(ctypes.string_at(self.source, max(self.size, 1))), dtype=torch.uint8)
            self.data = data.to(spec["device"])
            self.address = self.data.data_ptr()
        else:
            step = max(guard.alignment, 1)
            aligned = -(-self.size // step) * step
            self.low, self.usable = guard.take(aligned + pad * (2 if side == "begin" else 1))
            guard.fill(self.low, self.CANARY, self.usable)
            self.address = self.low + pad if side == "begin" else self.low + self.usable - aligned - pad
            guard.upload(self.address, self.source, self.size)
        self.tensor = tensor_at(torch, self.address, spec["dtype"], spec["shape"], spec["stride"], spec["device"])
        if spec.get("grad"):
            self.tensor.requires_grad_(True)

    def describe(self):
        return {"name": self.spec["name"], "address": self.address, "bytes": self.size,
                "low": self.low, "high": self.low + self.usable}

    def complaint(self):
        """What was written outside the operand, or into one that the operator only reads; or None."""
        if self.side == "none":
            return None
        before = self.address - self.low
        after = self.usable - before - self.size
        for at, count, where in ((self.address - min(before, 4096), min(before, 4096), "before"),
                                 (self.address + self.size, min(after, 4096), "after")):
            data = self.guard.download(at, count) if count else b""
            if data.count(self.CANARY) != count:
                bad = next(i for i, c in enumerate(data) if c != self.CANARY)
                if where == "before":
                    bad = max(i for i, c in enumerate(data) if c != self.CANARY)
                distance = count - bad if where == "before" else bad
                return {"name": self.spec["name"], "where": where, "distance": distance}
        if not self.spec.get("written") and self.guard.download(self.address, self.size) != \
                ctypes.string_at(self.source, self.size):
            return {"name": self.spec["name"], "where": "inside", "distance": 0}
        return None

    def release(self):
        if self.side != "none":
            self.guard.give(self.low, self.usable)


# ---- proof: a planted fault must be caught in this process, on this device ----

def planted(torch, guard, device, plan):
    """Runs in a forked child: touches one element beyond an operand of 1000 floats, or none."""
    size = 4000
    low, usable = guard.take(size)
    guard.fill(low, 0, usable)
    aligned = -(-size // guard.alignment) * guard.alignment  # 4000 is a multiple of 16
    at = low + usable - aligned if plan.endswith("end") else low
    extra = 0 if plan.startswith("clean") else 1
    start = at if plan.endswith("end") else at - 4 * extra
    t = tensor_at(torch, start, "float32", [1000 + extra], [1], device)
    if plan.startswith("write"):
        t.fill_(1.0)
    else:
        t.sum().item()
    if device != "cpu":
        torch.cuda.synchronize()
    return low + usable if plan.endswith("end") else low


def start_plan(torch, device, plan, record):
    """A child that plants one access: (plan, pid, the end of a pipe that it writes its words to)."""
    reader, writer = os.pipe()
    record.fd, record.signal, record.address = writer, 0, 0
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(1, 9)  # die with the parent
            guard = make_guard(torch, device)
            if device == "cpu":  # tell where the hole is before touching it
                low, usable = guard.take(4000)
                guard.give(low, usable)
                os.write(writer, b"%d %d\n" % (low - 4, low + usable))
            planted(torch, guard, device, plan)
            os.write(writer, b"done\n")
        except Exception as e:  # what torch makes of a GPU fault
            os.write(writer, ("raised %s\n" % str(e).split("\n")[0]).encode())
        os._exit(0)
    os.close(writer)
    return plan, pid, reader


def end_plan(started, device, record):
    """Word for one plan: "clean", "fault" (at the right address), or what happened instead."""
    plan, pid, reader = started
    text, limit = b"", time.time() + 120
    while time.time() < limit and not text.endswith((b"!\n", b"done\n")) and b"raised" not in text:
        part = os.read(reader, 4096)
        if not part:
            break
        text += part
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(reader)
    words = text.decode(errors="replace").strip()
    if words.endswith("done"):
        return "clean"
    if device == "cpu" and words.endswith("!"):
        low, high = (int(w) for w in words.split("\n")[0].split())
        return "fault" if record.address == (high if plan.endswith("end") else low) else \
            "a fault at another address"
    if "illegal memory access" in words or "llegal" in words or "fault" in words:
        return "fault"
    return words or "died without a word"


def prove(torch, device, record):
    """{"proven": bool, "text": ...}: every planted access caught and the clean ones not.

    A new context takes seconds, and CUDA keeps a fault to the context that made it: there the plans run
    side by side, clean ones first. Other GPUs may be reset by a fault, and the CPU has one fault record.
    """
    together = device != "cpu" and torch.version.hip is None
    for plans in (("clean-end", "clean-begin"), ("read-end", "read-begin", "write-end", "write-begin")):
        started = [start_plan(torch, device, plan, record) for plan in plans] if together else []
        for i, plan in enumerate(plans):
            seen = end_plan(started[i] if together else start_plan(torch, device, plan, record), device, record)
            if seen != ("clean" if plan.startswith("clean") else "fault"):
                for _, pid, reader in started[i + 1:]:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    os.close(reader)
                # Without a planted access nothing may happen: then the instrument itself does not work.
                return {"proven": False, "broken": plan.startswith("clean"), "text": "%s: %s" % (plan, seen)}
    return {"proven": True, "text": "4 of 4 planted accesses of one element caught, 2 of 2 clean ones not"}


def make_guard(torch, device):
    return CpuGuard() if device == "cpu" else GpuGuard(torch)
