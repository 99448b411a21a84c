# SPDX-License-Identifier: Apache-2.0
"""Pieces of a frozen machine for make_hosts.py: files under a root, ELF stubs, kpack archives, PCI and KFD trees."""
import os
import struct


def align(n, a):
    return (n + a - 1) // a * a


def elf_hash(name):
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        g = h & 0xF0000000
        h = (h ^ (g >> 24)) & ~g & 0xFFFFFFFF
    return h


def elf(soname, needed=(), runpath=None, defines=(), sections=(), exports=()):
    """A small x86-64 shared object: dynamic section, version definitions, sections of data, exported names."""
    strings = bytearray(b"\0")

    def text(s):
        strings.extend(s.encode() + b"\0")
        return len(strings) - len(s) - 1

    tags = [(14, text(soname))] + [(1, text(n)) for n in needed]
    if runpath:
        tags.append((29, text(runpath)))
    names = [text(e) for e in exports]
    verdef = b""
    for i, name in enumerate(defines):
        last = i == len(defines) - 1
        verdef += struct.pack("<HHHHIII", 1, 1 if i == 0 else 0, i + 1, 1, elf_hash(name), 20, 0 if last else 28)
        verdef += struct.pack("<II", text(name), 0)
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", n, 0x12, 0, 1, 0x1000, 8) for n in names)
    count = len(names) + 1
    chain = list(range(2, count)) + [0] if count > 1 else []
    table = struct.pack("<IIII", 1, count, 1 if count > 1 else 0, 0) + b"".join(struct.pack("<I", c) for c in chain)

    body = bytearray()
    place = {}
    start = 64 + 56 * 2

    def put(name, data, to=8):
        body.extend(bytes(align(start + len(body), to) - start - len(body)))
        place[name] = (start + len(body), len(data))
        body.extend(data)

    put(".dynstr", bytes(strings))
    put(".dynsym", symbols)
    put(".hash", table)
    if verdef:
        put(".gnu.version_d", verdef)
    for name, data in sections:
        put(name, data, 16)
    tags += [(5, place[".dynstr"][0]), (10, len(strings)), (6, place[".dynsym"][0]), (11, 24), (4, place[".hash"][0])]
    if verdef:
        tags += [(0x6FFFFFFC, place[".gnu.version_d"][0]), (0x6FFFFFFD, len(defines))]
    put(".dynamic", b"".join(struct.pack("<QQ", t, v) for t, v in tags + [(0, 0)]))
    kinds = {".dynstr": 3, ".dynsym": 11, ".hash": 5, ".gnu.version_d": 0x6FFFFFFD, ".dynamic": 6}
    info = {".dynsym": 1, ".gnu.version_d": len(defines)}
    shnames = bytearray(b"\0")
    headers = bytes(64)
    order = list(place)
    for name in order + [".shstrtab"]:
        at = len(shnames)
        shnames.extend(name.encode() + b"\0")
        if name == ".shstrtab":
            put(name, bytes(shnames))
        where, size = place[name]
        link = order.index(".dynstr") + 1 if name in (".dynsym", ".dynamic", ".gnu.version_d") else 0
        kind = 3 if name == ".shstrtab" else kinds.get(name, 1)
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 2, where, where, size, link, info.get(name, 0), 8, 24 if kind == 11 else 0)
    put("headers", headers)
    size = start + len(body)
    head = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, place["headers"][0], 0, 64, 56, 2, 64, len(order) + 2, len(order) + 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    dyn = place[".dynamic"]
    dynamic = struct.pack("<IIQQQQQQ", 2, 4, dyn[0], dyn[0], dyn[0], dyn[1], dyn[1], 8)
    return head + load + dynamic + bytes(body)


def bundle(targets):
    """An offload bundle with an empty code object for each target (clang's ClangOffloadBundler.rst)."""
    ids = ["host-x86_64-unknown-linux--"] + ["hipv4-amdgcn-amd-amdhsa--" + t for t in targets]
    at = 32 + sum(24 + len(i) for i in ids)
    out = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for i, name in enumerate(ids):
        out += struct.pack("<QQQ", at, 0 if i == 0 else 64, len(name)) + name.encode()
        at += 0 if i == 0 else 64
    return out + bytes(64 * len(targets))


def msgpack(v):
    if isinstance(v, dict):
        return bytes([0x80 | len(v)]) + b"".join(msgpack(k) + msgpack(x) for k, x in v.items())
    if isinstance(v, list):
        return bytes([0x90 | len(v)]) + b"".join(msgpack(x) for x in v)
    if isinstance(v, int):
        return bytes([v]) if v < 128 else b"\xce" + struct.pack(">I", v)
    raw = v.encode()
    return (bytes([0xA0 | len(raw)]) if len(raw) < 32 else b"\xd9" + bytes([len(raw)])) + raw


def kpack(target, family, binaries):
    """A kpack archive (rocm-systems, shared/kpack): header, stored kernels, table of contents."""
    code = bytes(64)
    toc = msgpack({"format_version": 1, "group_name": "rocm", "gfx_arch_family": family, "gfx_arches": [target],
                   "compression_scheme": "none",
                   "toc": {b: {target: {"type": "hsaco", "ordinal": i, "original_size": len(code)}}
                           for i, b in enumerate(binaries)}})
    return b"KPAK" + struct.pack("<IQ", 1, 16 + len(code) * len(binaries)) + code * len(binaries) + toc


def kpack_ref(name, paths):
    return (".rocm_kpack_ref", msgpack({"kernel_name": name, "kpack_search_paths": paths}))


class Root:
    """Files of one machine. Text gets a final newline unless it is empty or bytes."""

    def __init__(self, path):
        self.path = path

    def file(self, path, data=""):
        full = self.path + path
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if isinstance(data, str):
            data = (data + "\n" if data and not data.endswith(("\n", "\0")) else data).encode()
        with open(full, "wb") as f:
            f.write(data)

    def files(self, folder, **named):
        for name, data in named.items():
            self.file(f"{folder}/{name}", str(data))

    def link(self, path, target):
        full = self.path + path
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.symlink(target, full)

    # -- the PCI bus -------------------------------------------------------------------------------

    def pci(self, chain, vendor, device, kind, revision=0, **files):
        """A device below the bridges of `chain` ("pci0000:00", "0000:00:01.1", ..., its own address)."""
        folder = "/sys/devices/" + "/".join(chain)
        address = chain[-1]
        self.files(folder, vendor=f"0x{vendor:04x}", device=f"0x{device:04x}", revision=f"0x{revision:02x}")
        self.file(folder + "/class", f"0x{kind:06x}")
        for name, data in files.items():
            self.file(f"{folder}/{name}", data)
        self.link(f"/sys/bus/pci/devices/{address}", "../../../devices/" + "/".join(chain))
        return folder

    def bridge(self, chain, vendor, device, acs=None):
        config = bytearray(64)
        struct.pack_into("<HH", config, 0, vendor, device)
        if acs is not None:  # what root sees: 4096 bytes, one extended capability
            config.extend(bytes(4096 - 64))
            struct.pack_into("<IHH", config, 0x100, 0x0001000D, 0x5F, acs)
        return self.pci(chain, vendor, device, 0x060400, config=bytes(config))

    def amd_gpu(self, chain, m, switch=None, width=16, numa=-1, iommu=None, status="active", used=28 << 20,
                driver="amdgpu", bar0=None):
        """An AMD GPU; a discrete card sits behind the two bridges of its own switch."""
        if switch:
            chain = chain[:-1] + list(switch) + chain[-1:]
            self.bridge(chain[:-2], 0x1002, 0x1478)
            self.bridge(chain[:-1], 0x1002, 0x1479)
        bar = m["vram"] if bar0 is None else bar0
        base = 0x7C00000000
        folder = self.pci(chain, 0x1002, m["device"], m.get("class", 0x030000), m["rev"])
        self.files(folder, resource=f"0x{base:016x} 0x{base + bar - 1:016x} 0x000000000014220c\n"
                   "0x0000000000000000 0x0000000000000000 0x0000000000000000",
                   current_link_width=width, max_link_width=16, numa_node=numa,
                   current_link_speed=m.get("speed", "16.0 GT/s PCIe"), max_link_speed=m.get("speed", "16.0 GT/s PCIe"))
        self.file(folder + "/power/runtime_status", status)
        if driver:
            self.link(folder + "/driver", "../" * (len(chain) + 1) + "bus/pci/drivers/" + driver)
        if iommu is not None:
            group, kind = iommu
            self.file(f"/sys/kernel/iommu_groups/{group}/type", kind)
            self.link(folder + "/iommu_group", f"/sys/kernel/iommu_groups/{group}")
        if driver == "amdgpu":
            self.amdgpu(folder, dict(m, vis=min(bar, m["vram"])), used)
        return folder

    def amdgpu(self, folder, m, used):
        self.files(folder, product_name=m.get("product", ""), mem_info_vram_total=m["vram"], mem_info_vram_used=used,
                   mem_info_vis_vram_total=m.get("vis", m["vram"]), mem_info_gtt_total=m["gtt"], gpu_busy_percent=0,
                   power_dpm_force_performance_level="auto", vbios_version="113-D0000000-100",
                   pp_dpm_sclk=f"0: 500Mhz *\n1: {m['sclk']}Mhz")
        self.files(folder + "/hwmon/hwmon3", name="amdgpu", temp1_input=41000, temp1_label="edge", temp2_input=45000,
                   temp2_label="junction", power1_cap=m["cap"] * 1000000)
        self.file(folder + "/hwmon/hwmon3/power1_average", "38000000")
        self.file(folder + "/fw_version/smc_fw_version", f"0x{m['smu']:08x}")
        if "mes" in m:
            self.file(folder + "/fw_version/mes_fw_version", f"0x{m['mes']:08x}")
        version = m.get("metrics", (1, 3))
        size = {(1, 3): 120, (2, 1): 120, (3, 0): 264, (1, 5): 264}[version]
        self.file(folder + "/gpu_metrics", struct.pack("<HBB", size, *version) + bytes(size - 4))
        for block in m.get("ras", ()):
            self.file(f"{folder}/ras/{block}_err_count", "ue: 0\nce: 0")

    # -- KFD ---------------------------------------------------------------------------------------

    def kfd(self, cpus, gpus, xgmi=False, no_atomics=False):
        """`gpus`: (model, PCI address, gpu_id, render minor, properties empty?)."""
        top = "/sys/class/kfd/kfd/topology"
        self.file(top + "/generation_id", "2")
        self.file("/sys/class/kfd/kfd/proc/.keep", "")  # git keeps no empty folder; not a process number
        for n in range(cpus):
            self.kfd_node(n, cpu_cores_count=32, simd_count=0, mem_banks_count=1, caches_count=0,
                          io_links_count=len(gpus), gfx_target_version=0, location_id=0, drm_render_minor=-1)
            self.file(f"{top}/nodes/{n}/gpu_id", "0")
        for i, (m, address, gpu_id, minor, empty) in enumerate(gpus):
            n = cpus + i
            self.file(f"{top}/nodes/{n}/gpu_id", "" if empty else str(gpu_id))
            if empty:  # another container's GPU
                self.file(f"{top}/nodes/{n}/properties", "")
                continue
            domain, bus, rest = address.split(":")
            device, function = rest.split(".")
            location = int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16)
            self.kfd_node(n, cpu_cores_count=0, simd_count=m["cu"] * m["simd_per_cu"], mem_banks_count=1,
                          lds_size_in_kb=64, wave_front_size=m["wave"], simd_per_cu=m["simd_per_cu"],
                          gfx_target_version=m["gfx"], vendor_id=4098, device_id=m["device"], location_id=location,
                          domain=int(domain, 16), drm_render_minor=minor, hive_id=77 if xgmi else 0,
                          local_mem_size=0, fw_version=m.get("mec", 100), num_xcc=m.get("xcc", 1))
            self.kfd_link(n, 0, 0, 2, 1 | (0xC if no_atomics else 0))
            for other in range(len(gpus)):
                if other != i:
                    slot = other + 1
                    self.kfd_link(n, slot, cpus + other, 11 if xgmi else 2, 1, "io_links" if xgmi else "p2p_links")

    def kfd_node(self, n, **properties):
        self.file(f"/sys/class/kfd/kfd/topology/nodes/{n}/properties", "\n".join(f"{k} {v}" for k, v in properties.items()))

    def kfd_link(self, n, slot, to, kind, flags, folder="io_links"):
        self.file(f"/sys/class/kfd/kfd/topology/nodes/{n}/{folder}/{slot}/properties",
                  f"type {kind}\nversion_major 0\nversion_minor 0\nnode_from {n}\nnode_to {to}\nweight 20\n"
                  f"min_latency 0\nmax_latency 0\nmin_bandwidth 312\nmax_bandwidth 31507\nflags {flags}")
