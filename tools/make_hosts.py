#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the frozen machines of tests/hosts: make_hosts.py [NAME...]. Each is invented from public descriptions of such
machines (see tests/hosts/README.md); none is a copy of a real one. Replaces <name>/root and nothing else."""
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from host_parts import Root, bundle, elf, kpack, kpack_ref  # noqa: E402

GIB = 1 << 30
HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "hosts")
ROOT_MAP = "         0          0 4294967295"

MI210 = dict(device=0x740F, rev=0x02, gfx=90010, cu=104, simd_per_cu=4, wave=64, vram=64 * GIB, gtt=252 * GIB, sclk=1700, cap=300,
             smu=0x00443D00, ras=("umc", "sdma", "gfx", "mmhub", "xgmi_wafl"), product="AMD Instinct MI210", **{"class": 0x038000})
MI100 = dict(MI210, device=0x738C, rev=0x01, gfx=90008, cu=120, vram=32 * GIB, sclk=1502, cap=290, product="AMD Instinct MI100")
MI300X = dict(MI210, device=0x74A1, rev=0x00, gfx=90402, cu=304, vram=192 * GIB - (16 << 20), gtt=1007 * GIB, sclk=2100, cap=750,
              smu=0x00557200, metrics=(1, 5), speed="32.0 GT/s PCIe", xcc=8, product="AMD Instinct MI300X OAM",
              **{"class": 0x120000})
R9700 = dict(device=0x7551, rev=0xC0, gfx=120001, cu=64, simd_per_cu=2, wave=32, vram=32624 << 20, gtt=46 * GIB, sclk=2350,
             cap=300, smu=0x00684C00, mes=0x7E, speed="32.0 GT/s PCIe")
RX7900XTX = dict(device=0x744C, rev=0xC8, gfx=110000, cu=96, simd_per_cu=2, wave=32, vram=24560 << 20, gtt=31 * GIB, sclk=2482,
                 cap=303, smu=0x004E7E00, mes=0x64)
RX7800XT = dict(RX7900XTX, device=0x747E, gfx=110001, cu=60, vram=16368 << 20, sclk=2169, cap=212)
RX6700XT = dict(device=0x73DF, rev=0xC1, gfx=100301, cu=40, simd_per_cu=2, wave=32, vram=12272 << 20, gtt=15 * GIB, sclk=2581,
                cap=186, smu=0x00413B00)
RAPHAEL = dict(device=0x13C0, rev=0xC1, gfx=100306, cu=2, simd_per_cu=2, wave=32, vram=512 << 20, gtt=46 * GIB, sclk=2200,
               cap=170, smu=0x00543F00, metrics=(2, 1))
STRIX_HALO = dict(device=0x1586, rev=0xC1, gfx=110501, cu=40, simd_per_cu=2, wave=32, vram=512 << 20, gtt=62 * GIB, sclk=2900,
                  cap=120, smu=0x00640600, mes=0x83, metrics=(3, 0))

UBUNTU22 = ("Ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "2.35", "3.4.30", "11")
UBUNTU24 = ("Ubuntu", "24.04", "Ubuntu 24.04.2 LTS", "2.39", "3.4.33", "13")
DEBIAN12 = ("Debian GNU/Linux", "12", "Debian GNU/Linux 12 (bookworm)", "2.36", "3.4.30", "12")


def machine(r, os_release, kernel, cpu, cores, memory, cmdline="ro quiet", uid=1000, groups="1000", env=(), group_file=(),
            memlock=None, numa=1, hypervisor=False, board=None, packages=(), uid_map=ROOT_MAP, balancing=0, version_tail="",
            headers=True):
    """What every machine has: release, /proc, libraries of the system, packages, the identity of the asking process."""
    name, version, pretty, glibc, glibcxx, gcc = os_release
    r.file("/etc/os-release", f'PRETTY_NAME="{pretty}"\nNAME="{name}"\nVERSION_ID="{version}"\nID={name.split()[0].lower()}')
    r.file("/proc/version", f"Linux version {kernel} (build@host) (gcc) #1 SMP{version_tail}")
    r.file("/proc/sys/kernel/osrelease", kernel)
    r.file("/proc/sys/kernel/numa_balancing", str(balancing))
    r.file("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID=0a1b2c3d-0000-4000-8000-000000000000 {cmdline}")
    flags = "fpu vme sse4_2 avx avx2" + (" hypervisor" if hypervisor else "")
    r.file("/proc/cpuinfo", f"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: {cpu}\nflags\t\t: {flags}\n")
    r.file("/proc/meminfo", f"MemTotal:       {memory << 20} kB\nMemFree:        {memory << 19} kB\n"
           f"MemAvailable:   {(memory << 20) * 9 // 10} kB")
    r.file("/proc/stat", "cpu  1 0 1 100 0 0 0 0 0 0\nbtime 1760000000")
    r.file("/proc/net/tcp", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode")
    r.file("/proc/self/environ", "".join(e + "\0" for e in ("PATH=/usr/bin:/bin",) + tuple(env)))
    r.file("/proc/self/uid_map", uid_map)
    r.file("/proc/self/gid_map", uid_map)
    r.link("/proc/self/cwd", "/home/user/train")
    r.link("/proc/self/ns/pid", "pid:[4026531836]")
    r.link("/proc/self/ns/ipc", "ipc:[4026531839]")
    r.file("/proc/1/cmdline", "/sbin/init\0")
    r.file("/proc/1/stat", "1 (systemd) S 0 1 1 0 -1")
    r.file("/proc/1/cgroup", "0::/init.scope")
    for n in range(numa):
        r.file(f"/sys/devices/system/node/node{n}/cpulist", f"{n * cores // numa}-{(n + 1) * cores // numa - 1}")
    if board:
        r.files("/sys/class/dmi/id", board_name=board[0], bios_version=board[1])
    r.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash")
    r.file("/etc/group", "\n".join(("root:x:0:", "video:x:44:", "user:x:1000:") + tuple(group_file)))
    lib = "/usr/lib/x86_64-linux-gnu"
    r.file(lib + "/libc.so.6", elf("libc.so.6", defines=["libc.so.6", "GLIBC_2.2.5", "GLIBC_" + glibc]))
    r.file(lib + "/libm.so.6", elf("libm.so.6", ["libc.so.6"], defines=["libm.so.6", "GLIBC_2.2.5"]))
    r.file(lib + "/libstdc++.so.6", elf("libstdc++.so.6", ["libc.so.6"], defines=["libstdc++.so.6", "GLIBCXX_3.4", "GLIBCXX_" + glibcxx]))
    r.link("/lib", "usr/lib")
    r.link("/lib64", "usr/lib64")
    r.file("/usr/lib64/ld-linux-x86-64.so.2", elf("ld-linux-x86-64.so.2"))
    r.file("/etc/ld.so.conf", "/usr/local/lib\n/usr/lib/x86_64-linux-gnu")
    r.file(f"/usr/lib/gcc/x86_64-linux-gnu/{gcc}/crtbegin.o.txt", "placeholder of the compiler's folder")
    if headers:
        r.file(f"/usr/include/c++/{gcc}/cstdint", "// placeholder")
    status = [(f"libstdc++-{gcc}-dev" if headers else "libstdc++6", f"{gcc}.4.0-1")] + list(packages)
    r.file("/var/lib/dpkg/status", "\n".join(
        f"Package: {p[0]}\nStatus: {p[2] if len(p) > 2 else 'install ok installed'}\nArchitecture: amd64\nVersion: {p[1]}\n"
        for p in status))
    limit = memlock if memlock is not None else memory * GIB // 8
    r.file("/.assay/process.tsv", f"uid\t{uid}\ngroups\t{groups}\nmemlock\t{limit}\ncpus\t{cores}")
    r.file("/.assay/shm_size", str(memory * GIB // 2))
    r.file("/.assay/shm_avail", str(memory * GIB // 2))


def nodes(r, *rows):
    r.file("/.assay/nodes.tsv", "\n".join("\t".join(row) for row in rows))


def gpu_nodes(r, count, group="109", mode="0660", owner="0"):
    nodes(r, ("c", mode, owner, group, "/dev/kfd"),
          *[("c", mode, owner, group, f"/dev/dri/renderD{128 + i}") for i in range(count)])


def amdgpu_module(r, version=None, kernel=None, dkms=None, **parameters):
    """`version`: of a DKMS module; the kernel's own has none. `dkms`: version that DKMS installed for `kernel`."""
    r.file("/sys/module/amdgpu/initstate", "live")
    if version:
        r.file("/sys/module/amdgpu/version", version)
    for name, value in dict(dict(noretry="-1", vm_fault_stop="0", mcbp="-1"), **parameters).items():
        r.file("/sys/module/amdgpu/parameters/" + name, value)
    if dkms:
        r.file(f"/var/lib/dkms/amdgpu/{dkms}/{kernel}/x86_64/log/make.log", "DKMS make.log")
        r.link(f"/var/lib/dkms/amdgpu/kernel-{kernel}-x86_64", f"{dkms}/{kernel}/x86_64")


def library(r, folder, name, soname, needed=(), targets=(), extra=(), runpath=None):
    sections = list(extra) + ([(".hip_fatbin", bundle(targets))] if targets else [])
    r.file(f"{folder}/{name}", elf(soname, needed or ["libc.so.6"], runpath, sections=sections))


def isa_names(targets):
    """The runtime's table of ISAs, by which it says whether it knows a GPU."""
    return (".rodata", b"".join(f"amdgcn-amd-amdhsa--{t}".encode() + b"\0" for t in targets))


def tensile(r, folder, targets):
    for t in targets:
        r.file(f"{folder}/TensileLibrary_lazy_{t}.dat", "placeholder")
        r.file(f"{folder}/TensileLibrary_Type_BB_HPA_Contraction_l_Ailk_Bljk_Cijk_Dijk_{t}.co", "CCOB placeholder")


def rocm_system(r, version, build, hip, targets, soname, blas, blaslt=None):
    """A classic /opt/rocm: versioned folder, link, .info, the libraries a PyTorch process asks for."""
    top = f"/opt/rocm-{version}"
    r.link("/opt/rocm", f"rocm-{version}")
    r.file(top + "/.info/version", f"{version}-{build}")
    lib = top + "/lib"
    library(r, lib, f"libamdhip64.so.{hip}", f"libamdhip64.so.{soname}", ["libhsa-runtime64.so.1", "libc.so.6"],
            extra=[isa_names(targets)])
    r.link(f"{lib}/libamdhip64.so.{soname}", f"libamdhip64.so.{hip}")
    r.link(f"{lib}/libamdhip64.so", f"libamdhip64.so.{soname}")
    library(r, lib, "libhsa-runtime64.so.1.14.0", "libhsa-runtime64.so.1")
    r.link(lib + "/libhsa-runtime64.so.1", "libhsa-runtime64.so.1.14.0")
    library(r, lib, f"librocblas.so.{blas}", f"librocblas.so.{blas}", ["libamdhip64.so." + str(soname)], targets)
    tensile(r, lib + "/rocblas/library", targets)
    if blaslt is not None:
        library(r, lib, f"libhipblaslt.so.{blaslt}", f"libhipblaslt.so.{blaslt}", ["libamdhip64.so." + str(soname)])
        tensile(r, lib + "/hipblaslt/library", [t for t in targets if t in HIPBLASLT])
    r.file("/etc/ld.so.conf", "/usr/local/lib\n/usr/lib/x86_64-linux-gnu\n/opt/rocm/lib")


HIPBLASLT = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201")
CLASSIC = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101")


def dist(r, site, name, version, requires=(), tag="py3-none-any", **more):
    folder = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    r.file(folder + "/METADATA", "\n".join([f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"] +
                                           ["Requires-Dist: " + q for q in requires]))
    r.file(folder + "/WHEEL", f"Wheel-Version: 1.0\nGenerator: setuptools\nRoot-Is-Purelib: false\nTag: {tag}")
    for file, text in more.items():
        r.file(f"{folder}/{file}", text)


def venv(r, python="3.12", prefix="/home/user/venv"):
    site = f"{prefix}/lib/python{python}/site-packages"
    r.file(prefix + "/pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}.3")
    r.file(f"/usr/bin/python{python}", "placeholder of the interpreter")
    r.link("/usr/bin/python3", f"python{python}")
    r.link(prefix + "/bin/python3", "/usr/bin/python3")
    r.file(f"/usr/lib/python{python}/os.py", "# placeholder")
    dist(r, site, "pip", "24.0")
    return site


def torch(r, site, version, hip=None, cuda=None, targets=(), runtime=None, needed=(), tag="cp312-cp312-manylinux_2_28_x86_64"):
    """`runtime`: HIP soname number, when the wheel brings ROCm along in torch/lib."""
    dist(r, site, "torch", version, ["filelock", "sympy"], tag)
    quote = lambda v: "None" if v is None else f"'{v}'"
    r.file(site + "/torch/version.py", f"__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n__version__ = '{version}'\n"
           f"debug = False\ncuda: Optional[str] = {quote(cuda)}\ngit_version = '{'0' * 40}'\nhip: Optional[str] = {quote(hip)}")
    r.file(site + "/torch/__init__.py", "# placeholder")
    lib = site + "/torch/lib"
    library(r, lib, "libc10.so", "libc10.so", ["libstdc++.so.6", "libc.so.6"])
    library(r, lib, "libtorch_cpu.so", "libtorch_cpu.so", ["libc10.so"], runpath="$ORIGIN")
    if hip:
        library(r, lib, "libc10_hip.so", "libc10_hip.so", ["libc10.so"] + list(needed[:1]), runpath="$ORIGIN")
        library(r, lib, "libtorch_hip.so", "libtorch_hip.so", ["libc10_hip.so", "libtorch_cpu.so"] + list(needed), targets,
                runpath="$ORIGIN")
    if runtime:
        n, blas, blaslt = runtime
        library(r, lib, "libamdhip64.so", f"libamdhip64.so.{n}", ["libhsa-runtime64.so"], runpath="$ORIGIN",
                extra=[isa_names(targets)])
        library(r, lib, "libhsa-runtime64.so", "libhsa-runtime64.so.1")
        library(r, lib, "librocblas.so", f"librocblas.so.{blas}", ["libamdhip64.so"], targets, runpath="$ORIGIN")
        library(r, lib, "libhipblaslt.so", f"libhipblaslt.so.{blaslt}", ["libamdhip64.so"], runpath="$ORIGIN")
        tensile(r, lib + "/rocblas/library", targets)
        tensile(r, lib + "/hipblaslt/library", [t for t in targets if t in HIPBLASLT])


BUNDLED = ("libamdhip64.so", "librocblas.so", "libhipblaslt.so")
VENV = "VIRTUAL_ENV=/home/user/venv"


def wtmp(clean):
    """Two boots; a shutdown stands between them when `clean` (utmp(5))."""
    def record(kind, user, line, when):
        return struct.pack("<hxxi32s4s32s256shhiii16s20s", kind, 0, line, b"~~", user, b"6.0.0", 0, 0, 0, when, 0, b"", b"")
    rows = [record(2, b"reboot", b"~", 1759000000)]
    rows += [record(1, b"shutdown", b"~", 1759900000)] if clean else []
    return b"".join(rows + [record(2, b"reboot", b"~", 1760000000)])


def container(r, kind="docker", shm=64 << 20, limit=None):
    r.file("/.dockerenv" if kind == "docker" else "/run/.containerenv", "")
    os.unlink(r.path + "/proc/self/ns/pid")
    os.unlink(r.path + "/proc/self/ns/ipc")
    r.link("/proc/self/ns/pid", "pid:[4026532999]")
    r.link("/proc/self/ns/ipc", "ipc:[4026532998]")
    r.file("/proc/1/cmdline", "sleep\0infinity\0")
    r.file("/proc/1/cgroup", "0::/")
    r.file("/.assay/shm_size", str(shm))
    r.file("/.assay/shm_avail", str(shm))
    r.file("/sys/fs/cgroup/memory.max", str(limit) if limit else "max")


# -- the machines ----------------------------------------------------------------------------------


def mi210_driver56_hip57_nightly(r):
    kernel = "5.15.0-91-generic"
    machine(r, UBUNTU22, kernel, "AMD EPYC 7543 32-Core Processor", 64, 512, "ro iommu=pt", groups="1000 44 109", env=(VENV,),
            group_file=("render:x:109:user",), numa=2, board=("H12DSG-O-CPU", "2.4"),
            packages=[("amdgpu-dkms", "1:5.6.0.50600-67~22.04"), ("rocm-core", "5.6.0.50600-67~22.04"),
                      ("linux-firmware", "20220329.git681281e4-0ubuntu3.24"), ("rocrand-dev", "2.10.17.50600-67~22.04")])
    amdgpu_module(r, "6.1.5", kernel, dkms="6.1.5-1609671.22.04")
    r.pci(["pci0000:00", "0000:00:00.0"], 0x1022, 0x1480, 0x060000)
    r.bridge(["pci0000:20", "0000:20:03.1"], 0x1022, 0x1483)
    r.bridge(["pci0000:a0", "0000:a0:03.1"], 0x1022, 0x1483)
    r.amd_gpu(["pci0000:20", "0000:20:03.1", "0000:23:00.0"], MI210, ("0000:21:00.0", "0000:22:00.0"), numa=0, iommu=(12, "identity"))
    r.amd_gpu(["pci0000:a0", "0000:a0:03.1", "0000:a3:00.0"], MI210, ("0000:a1:00.0", "0000:a2:00.0"), numa=1, iommu=(40, "identity"))
    r.file("/sys/class/iommu/ivhd0/amd-iommu/cap", "300f")
    r.kfd(2, [(MI210, "0000:23:00.0", 23456, 128, False), (MI210, "0000:a3:00.0", 34567, 129, False)])
    gpu_nodes(r, 2)
    rocm_system(r, "5.6.0", 67, "5.6.50600", ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100"), 5, 3, 0)
    site = venv(r, "3.10")
    torch(r, site, "2.2.0.dev20231010+rocm5.7", "5.7.31921-d1770ee1b", targets=("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100"),
          runtime=(5, 3, 0), needed=BUNDLED, tag="cp310-cp310-linux_x86_64")


def mi300x(r):
    kernel = "5.15.0-116-generic"
    machine(r, UBUNTU22, kernel, "AMD EPYC 9534 64-Core Processor", 256, 2048, "ro iommu=pt amdgpu.noretry=1", uid=0, groups="0",
            env=(VENV, "NCCL_MIN_NCHANNELS=112"), group_file=("render:x:110:",), memlock=-1, numa=2, balancing=1,
            board=("S8050", "3.07"), packages=[("amdgpu-dkms", "1:6.8.5.60204-2009582.22.04"), ("rocm-core", "6.2.4.60204-139~22.04")])
    amdgpu_module(r, "6.8.5", kernel, dkms="6.8.5-2009582.22.04", noretry="1")
    gpus = []
    for i in range(8):
        bus = 0x05 + 0x20 * i
        top = f"pci0000:{bus - 5:02x}"
        numa = i // 4
        port = f"0000:{bus - 5:02x}:01.1"
        r.bridge([top, port], 0x1022, 0x14AB, acs=0x1D if i == 0 else 0)
        r.amd_gpu([top, port, f"0000:{bus:02x}:00.0"], MI300X, numa=numa, iommu=(20 + i, "identity"))
        gpus.append((MI300X, f"0000:{bus:02x}:00.0", 50000 + i, 128 + 8 * i, False))
    r.file("/sys/class/iommu/ivhd0/amd-iommu/cap", "300f")
    r.kfd(2, gpus, xgmi=True)
    r.file("/sys/class/kfd/kfd/proc/4242/vram_50002", "1073741824")
    r.file("/proc/4242/stat", "4242 (python3) S 1 4242 4242 0 -1")
    r.file("/proc/4242/cmdline", "/home/user/venv/bin/python3\0/home/user/venv/bin/torchrun\0--nproc_per_node=8\0train.py\0")
    nodes(r, ("c", "0660", "0", "110", "/dev/kfd"), *[("c", "0660", "0", "110", f"/dev/dri/renderD{128 + 8 * i}") for i in range(8)])
    rocm_system(r, "6.2.4", 139, "6.2.41134", CLASSIC, 6, 4, 0)
    torch(r, venv(r, "3.10"), "2.5.1+rocm6.2", "6.2.41133-dd7f95766", targets=CLASSIC, runtime=(6, 4, 0), needed=BUNDLED,
          tag="cp310-cp310-linux_x86_64")


def r9700_therock_kpack(r):
    kernel = "6.14.0-24-generic"
    machine(r, UBUNTU24, kernel, "AMD Ryzen 9 9950X 16-Core Processor", 32, 96, "ro amd_iommu=on", groups="1000 44 992",
            env=(VENV, "ROCM_PATH=/opt/rocm"), group_file=("render:x:992:user",), board=("X870E Taichi", "3.20"),
            packages=[("rocm-core", "7.2.1.70201-81~24.04"), ("linux-firmware", "20240318.git3b128b60-0ubuntu2.17")])
    amdgpu_module(r)
    r.pci(["pci0000:00", "0000:00:00.0"], 0x1022, 0x14D8, 0x060000)
    for port in ("01.1", "01.3", "08.1"):
        r.bridge(["pci0000:00", "0000:00:" + port], 0x1022, 0x14DB)
    r.amd_gpu(["pci0000:00", "0000:00:01.1", "0000:03:00.0"], R9700, ("0000:01:00.0", "0000:02:00.0"), width=8, iommu=(15, "DMA-FQ"))
    r.amd_gpu(["pci0000:00", "0000:00:01.3", "0000:06:00.0"], R9700, ("0000:04:00.0", "0000:05:00.0"), width=8, iommu=(18, "DMA-FQ"))
    r.amd_gpu(["pci0000:00", "0000:00:08.1", "0000:0f:00.0"], RAPHAEL, iommu=(30, "DMA-FQ"), bar0=256 << 20, used=64 << 20)
    r.file("/sys/class/iommu/ivhd0/amd-iommu/cap", "300f")
    r.kfd(1, [(R9700, "0000:03:00.0", 31001, 128, False), (R9700, "0000:06:00.0", 31002, 129, False),
              (RAPHAEL, "0000:0f:00.0", 31003, 130, False)])
    gpu_nodes(r, 3, group="992")
    rocm_system(r, "7.2.1", 81, "7.2.70201", CLASSIC + ("gfx1200", "gfx1201"), 7, 5, 1)
    site = venv(r)
    version = "7.11.0a20251124"
    torch(r, site, "2.10.0a0+rocm" + version, "7.2.53150-4d1a6e1f3", needed=("libamdhip64.so.7", "librocblas.so.5", "libhipblaslt.so.1"))
    therock(r, site, version, "gfx1201", "gfx120X-all")


def therock(r, site, version, target, family):
    """TheRock's wheels: runtime, libraries with their GPU code in kpack archives, a device wheel for one target."""
    core = site + "/_rocm_sdk_core"
    libraries = site + "/_rocm_sdk_libraries"
    for name in ("rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-" + target):
        dist(r, site, name, version, tag="py3-none-linux_x86_64")
    r.file(core + "/.info/version", "7.11.0")
    library(r, core + "/lib", "libamdhip64.so.7", "libamdhip64.so.7", ["libhsa-runtime64.so.1", "libamd_comgr.so.3"], runpath="$ORIGIN",
            extra=[isa_names(CLASSIC + (target,))])
    for soname in ("libhsa-runtime64.so.1", "libamd_comgr.so.3", "librocm_kpack.so.0"):
        library(r, core + "/lib", soname, soname)
    # torch finds them by what rocm_sdk preloads; the RUNPATH of the wheel says the same to ld.so
    search = ["../.kpack/blas_lib_@GFXARCH@.kpack"]
    for soname, members in (("librocblas.so.5", 1), ("libhipblaslt.so.1", 1)):
        name = "lib/" + soname
        library(r, libraries + "/lib", soname, soname, ["libamdhip64.so.7"], runpath="$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib",
                extra=[kpack_ref(name, search), (".hipFatBinSegment", struct.pack("<IIQQ", 0x4B504948, 1, 0, 0))])
    r.file(f"{libraries}/.kpack/blas_lib_{target}.kpack", kpack(target, family, ["lib/librocblas.so.5#0", "lib/libhipblaslt.so.1#0"]))
    tensile(r, libraries + "/lib/rocblas/library", [target])
    tensile(r, libraries + "/lib/hipblaslt/library", [target])
    lib = site + "/torch/lib"
    run = "$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_libraries/lib"
    library(r, lib, "libc10_hip.so", "libc10_hip.so", ["libc10.so", "libamdhip64.so.7"], runpath=run)
    library(r, lib, "libtorch_hip.so", "libtorch_hip.so",
            ["libc10_hip.so", "libtorch_cpu.so", "libamdhip64.so.7", "librocblas.so.5", "libhipblaslt.so.1"], [target], runpath=run)


def desktop(r, model, kernel, cpu, os_release=UBUNTU24, environment=(), iommu=None, width=16, bar0=None, packages=(), **more):
    machine(r, os_release, kernel, cpu, 16, 64, groups="1000 44 992", env=(VENV,) + tuple(environment), group_file=("render:x:992:user",),
            board=("B650 Tomahawk", "1.80"), packages=packages, **more)
    amdgpu_module(r)
    r.pci(["pci0000:00", "0000:00:00.0"], 0x1022, 0x14D8, 0x060000)
    r.bridge(["pci0000:00", "0000:00:01.1"], 0x1022, 0x14DB)
    r.amd_gpu(["pci0000:00", "0000:00:01.1", "0000:03:00.0"], model, ("0000:01:00.0", "0000:02:00.0"), width=width, bar0=bar0,
              iommu=iommu)
    r.kfd(1, [(model, "0000:03:00.0", 31001, 128, False)])
    gpu_nodes(r, 1, group="992")


def rx7900xtx(r):
    desktop(r, RX7900XTX, "6.11.0-26-generic", "AMD Ryzen 7 7700X 8-Core Processor", iommu=(14, "DMA-FQ"),
            packages=[("rocm-core", "6.3.3.60303-74~24.04"), ("linux-firmware", "20240318.git3b128b60-0ubuntu2.9")])
    r.file("/sys/class/iommu/ivhd0/amd-iommu/cap", "300f")
    r.file("/var/log/wtmp", wtmp(True))
    targets = CLASSIC + ("gfx1102",)
    rocm_system(r, "6.3.3", 74, "6.3.42134", targets, 6, 4, 0)
    torch(r, venv(r), "2.7.1+rocm6.3", "6.3.42134-a9a80e791", targets=targets, runtime=(6, 4, 0), needed=BUNDLED)


def strix_halo_igpu(r):
    kernel = "6.17.0-7-generic"
    machine(r, UBUNTU24, kernel, "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 32, 124, "ro amdgpu.gttsize=65536 ttm.pages_limit=16777216",
            groups="1000 44 992", env=(VENV, "HSA_OVERRIDE_GFX_VERSION=11.0.0"), group_file=("render:x:992:user",), board=("FRANMFCP06", "03.02"),
            packages=[("linux-firmware", "20251125.git1b0cd3e0-0ubuntu1")])
    amdgpu_module(r)
    r.pci(["pci0000:00", "0000:00:00.0"], 0x1022, 0x1507, 0x060000)
    r.bridge(["pci0000:00", "0000:00:08.1"], 0x1022, 0x150B)
    r.amd_gpu(["pci0000:00", "0000:00:08.1", "0000:c1:00.0"], STRIX_HALO, iommu=(25, "DMA-FQ"), used=380 << 20)
    r.file("/sys/class/iommu/ivhd0/amd-iommu/cap", "300f")
    r.file("/var/log/wtmp", wtmp(False))
    r.kfd(1, [(STRIX_HALO, "0000:c1:00.0", 46001, 128, False)])
    gpu_nodes(r, 1, group="992")
    torch(r, venv(r), "2.9.0+rocm6.4", "6.4.43484-123eb5128", targets=CLASSIC + ("gfx1102", "gfx1200", "gfx1201"), runtime=(6, 4, 0),
          needed=BUNDLED)


def rx6700xt_override(r):
    desktop(r, RX6700XT, "6.5.0-45-generic", "AMD Ryzen 5 5600X 6-Core Processor", UBUNTU22, bar0=256 << 20,
            environment=("HSA_OVERRIDE_GFX_VERSION=10.3.0", "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128", "HCC_AMDGPU_TARGET=gfx1030"))
    torch(r, venv(r, "3.10"), "2.4.1+rocm6.1", "6.1.40091-a8dbc0c19", targets=CLASSIC, runtime=(6, 4, 0), needed=BUNDLED,
          tag="cp310-cp310-linux_x86_64")


def rocm_container(r, groups, **more):
    """rocm/pytorch image on a host with one MI210: sysfs is the host's, /dev and the root file system are the container's."""
    machine(r, UBUNTU22, "6.8.0-60-generic", "AMD EPYC 7543 32-Core Processor", 64, 512, groups=groups, env=("CONDA_PREFIX=/opt/conda/envs/py_3.10",),
            **more)
    container(r)
    amdgpu_module(r, "6.10.5")
    r.bridge(["pci0000:20", "0000:20:03.1"], 0x1022, 0x1483)
    r.amd_gpu(["pci0000:20", "0000:20:03.1", "0000:23:00.0"], MI210, ("0000:21:00.0", "0000:22:00.0"), numa=0)
    r.kfd(1, [(MI210, "0000:23:00.0", 23456, 128, False)])
    rocm_system(r, "6.3.3", 74, "6.3.42134", CLASSIC, 6, 4, 0)
    site = "/opt/conda/envs/py_3.10/lib/python3.10/site-packages"
    r.file("/opt/conda/envs/py_3.10/conda-meta/python-3.10.16-h4a871b0_2.json", '{"name": "python", "version": "3.10.16"}')
    r.file("/opt/conda/envs/py_3.10/bin/python3.10", "placeholder of the interpreter")
    torch(r, site, "2.6.0+rocm6.3", "6.3.42134-a9a80e791", targets=CLASSIC, runtime=(6, 4, 0), needed=BUNDLED,
          tag="cp310-cp310-linux_x86_64")


def container_no_kfd(r):
    rocm_container(r, "0", uid=0)
    nodes(r)


def container_wrong_render_gid(r):
    rocm_container(r, "1000 44 104", group_file=("render:x:104:user",))
    gpu_nodes(r, 1, group="109")


def wsl(r):
    machine(r, UBUNTU22, "5.15.153.1-microsoft-standard-WSL2", "AMD Ryzen 9 7950X 16-Core Processor", 32, 48,
            "initrd=\\initrd.img WSL_ROOT_INIT=1 panic=-1", groups="1000 44 109", env=(VENV, "WSL_DISTRO_NAME=Ubuntu-22.04"),
            group_file=("render:x:109:user",), hypervisor=True, version_tail=" Microsoft")
    r.pci(["LNXSYSTM:00", "9f2a:00:00.0"], 0x1414, 0x008E, 0x030200)
    nodes(r, ("c", "0666", "0", "0", "/dev/dxg"))
    r.file("/proc/1/cmdline", "/init\0")
    library(r, "/usr/lib/wsl/lib", "libdxcore.so", "libdxcore.so")
    rocm_system(r, "6.3.4", 76, "6.3.42134", CLASSIC, 6, 4, 0)
    torch(r, venv(r, "3.10"), "2.4.0+rocm6.3.4.git7cecbf6d", "6.3.42134-0", targets=CLASSIC, runtime=(6, 4, 0), needed=BUNDLED,
          tag="cp310-cp310-linux_x86_64")


def h200(r):
    machine(r, UBUNTU22, "5.15.0-1090-kvm", "INTEL(R) XEON(R) PLATINUM 8558", 192, 2048, "ro iommu=pt intel_iommu=on", uid=0, groups="0",
            env=(VENV,), memlock=-1, numa=2, board=("HGX H200", "1.4a"), packages=[("nvidia-driver-580-server-open", "580.95.05-0ubuntu1")])
    for i, (top, bus, numa) in enumerate((("pci0000:18", "1b", 0), ("pci0000:18", "1f", 0), ("pci0000:98", "9b", 1), ("pci0000:98", "9f", 1))):
        port = f"0000:{top[-2:]}:01.0"
        up, down = f"0000:{int(top[-2:], 16) + 1:02x}:00.0", f"0000:{int(bus, 16) - 1:02x}:00.0"
        if i % 2 == 0:
            r.bridge([top, port], 0x8086, 0x352A, acs=0x1F)
            r.bridge([top, port, up], 0x1000, 0xC030, acs=0)
        r.bridge([top, port, up, down], 0x1000, 0xC030, acs=0x5D)
        address = f"0000:{bus}:00.0"
        folder = r.pci([top, port, up, down, address], 0x10DE, 0x2335, 0x030200, 0xA1)
        base = 0x280000000000
        r.files(folder, resource=f"0x{0x9A000000:016x} 0x{0x9AFFFFFF:016x} 0x0000000000040200\n"
                f"0x{base:016x} 0x{base + 256 * GIB - 1:016x} 0x000000000014220c", current_link_width=16, max_link_width=16,
                current_link_speed="32.0 GT/s PCIe", max_link_speed="32.0 GT/s PCIe", numa_node=numa)
        r.file(folder + "/power/runtime_status", "active")
        r.link(folder + "/driver", "../../../../../../bus/pci/drivers/nvidia")
        r.file(f"/sys/kernel/iommu_groups/{60 + i}/type", "identity")
        r.link(folder + "/iommu_group", f"/sys/kernel/iommu_groups/{60 + i}")
        r.file(f"/proc/driver/nvidia/gpus/{address}/information",
               f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 512\nGPU UUID: \t GPU-00000000-0000-0000-0000-00000000000{i}\nVideo BIOS: \t 96.00.bc.00.01\n"
               f"Bus Type: \t PCIe\nDMA Size: \t 52 bits\nBus Location: \t {address}\nDevice Minor: \t {i}\nGPU Firmware: \t 580.95.05\n")
    r.file("/sys/class/iommu/dmar0/intel-iommu/cap", "d2008c40660462")
    r.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (buildd@host)\n"
           "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)")
    lib = "/usr/lib/x86_64-linux-gnu"
    library(r, lib, "libcuda.so.580.95.05", "libcuda.so.1")
    r.link(lib + "/libcuda.so.1", "libcuda.so.580.95.05")
    library(r, lib, "libnvidia-ml.so.580.95.05", "libnvidia-ml.so.1")
    nodes(r, *[("c", "0666", "0", "0", f"/dev/nvidia{i}") for i in range(4)])
    site = venv(r, "3.10")
    torch(r, site, "2.8.0+cu128", None, "12.8", tag="cp310-cp310-manylinux_2_28_x86_64")
    dist(r, site, "nvidia-nccl-cu12", "2.27.3")


def cpu_only(r):
    machine(r, DEBIAN12, "6.1.0-37-amd64", "AMD Ryzen 5 3600 6-Core Processor", 12, 32, env=(VENV,), board=("B450M", "P3.40"), memlock=8 << 20)
    r.pci(["pci0000:00", "0000:00:00.0"], 0x1022, 0x1480, 0x060000)
    r.pci(["pci0000:00", "0000:00:02.0"], 0x1A03, 0x2000, 0x030000)
    r.file("/usr/share/misc/pci.ids", "1022  Advanced Micro Devices, Inc. [AMD]\n\t1480  Starship/Matisse Root Complex\n"
           "\t\t1022 1480  Starship/Matisse Root Complex\n1a03  ASPEED Technology, Inc.\n\t2000  ASPEED Graphics Family")
    torch(r, venv(r, "3.11"), "2.7.1+cpu", tag="cp311-cp311-manylinux_2_28_x86_64")


def half_installed_rocm(r):
    kernel = "6.8.0-60-generic"
    desktop(r, RX7800XT, kernel, "AMD Ryzen 5 7600 6-Core Processor", UBUNTU22, iommu=(14, "DMA"), headers=False,
            packages=[("amdgpu-dkms", "1:6.12.12.60402-2187269.22.04", "install ok half-configured"),
                      ("rocm-core", "6.4.2.60402-120~22.04", "deinstall ok config-files"), ("gcc-12-base", "12.3.0-1ubuntu1~22.04")])
    r.link("/opt/rocm", "rocm-6.4.2")  # dangles: the folder below is another release
    r.file("/opt/rocm-6.3.3/lib/libamdhip64.so.6", b"\x7fELF\x02\x01\x01\x00" + bytes(8))
    r.file("/opt/rocm-6.3.3/lib/librocblas.so.4", "")
    r.link("/opt/rocm-6.3.3/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1.14.60303")
    r.file("/opt/rocm-6.3.3/.info/version", "")
    r.file("/var/lib/dkms/amdgpu/6.12.12-2187269.22.04/source/dkms.conf", 'PACKAGE_NAME="amdgpu"')
    r.file("/usr/lib/gcc/x86_64-linux-gnu/12/crtbegin.o.txt", "placeholder of the compiler's folder")
    site = venv(r, "3.10")
    r.file(site + "/torch/version.py", "__version__ = ")  # an interrupted pip
    r.file(site + "/~orch-2.6.0.dist-info/METADATA", "Name: torch")


def unreadable_sys(r):
    machine(r, UBUNTU22, "5.15.0-101-generic", "AMD EPYC 7402P 24-Core Processor", 48, 256, groups="1000 44 109", env=(VENV,),
            group_file=("render:x:109:user",), packages=[("amdgpu-dkms", "1:6.3.6.60002-1718217.22.04")])
    amdgpu_module(r, "6.3.6")
    r.bridge(["pci0000:40", "0000:40:03.1"], 0x1022, 0x1483)
    r.amd_gpu(["pci0000:40", "0000:40:03.1", "0000:43:00.0"], MI100, ("0000:41:00.0", "0000:42:00.0"), iommu=(31, "DMA"))
    r.kfd(1, [(MI100, "0000:43:00.0", 23456, 128, False)])
    gpu_nodes(r, 1)
    r.file("/.assay/denied", "\n".join((
        "/sys/class/kfd", "/sys/kernel/iommu_groups", "/sys/module/amdgpu", "/var/lib/dpkg/status", "/proc/self/environ", "/proc/cmdline",
        "/proc/meminfo", "/proc/self/uid_map", "/sys/devices/pci0000:40/0000:40:03.1/0000:41:00.0/0000:42:00.0/0000:43:00.0/mem_info_vram_used",
        "/sys/devices/pci0000:40/0000:40:03.1/0000:41:00.0/0000:42:00.0/0000:43:00.0/hwmon", "/sys/devices/system/node")))


MACHINES = {
    "mi210-driver56-hip57-nightly": mi210_driver56_hip57_nightly, "mi300x": mi300x, "r9700-therock-kpack": r9700_therock_kpack,
    "rx7900xtx": rx7900xtx, "strix-halo-igpu": strix_halo_igpu, "rx6700xt-override": rx6700xt_override,
    "container-no-kfd": container_no_kfd, "container-wrong-render-gid": container_wrong_render_gid, "wsl": wsl, "h200": h200,
    "cpu-only": cpu_only, "half-installed-rocm": half_installed_rocm, "unreadable-sys": unreadable_sys,
}


def main():
    for name in sys.argv[1:] or MACHINES:
        root = os.path.join(HOSTS, name, "root")
        shutil.rmtree(root, ignore_errors=True)
        MACHINES[name](Root(root))


if __name__ == "__main__":
    main()
