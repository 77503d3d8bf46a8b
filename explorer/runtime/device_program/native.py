"""The interpreter as machine code: loaded from the cache, or compiled on a miss.

Loading needs llvmlite alone; the compiler is imported on a miss only, which keeps a warm start
short.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from threading import RLock
from typing import Any

import llvmlite.binding as llvm

from explorer import cache as store
from explorer.devices.host import target
from explorer.process.forking import waits_for

SYMBOL = "ironworks_device"
SOURCES = (
    "instructions.py", "intrinsics.py", "llvm_words.py", "waiting.py", "interpreter.py",
    "work_stealing.py",
)  # fmt: skip
Entry = Callable[[int, int, int], int]
_lock = RLock()
waits_for(0, _lock)  # compiling takes the locks of Numba and LLVM


@dataclass(frozen=True, slots=True)
class Native:
    """The entry function, called without the GIL, and the owner of its code."""

    call: Entry
    address: int
    engine: Any


def native() -> Native:
    """Return the interpreter of this process."""
    with _lock:
        return _native()


@cache
def _native() -> Native:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    key = _key()
    code = store.get(key)
    if code is None:
        code = _compile()
        store.put(key, code, "kernel")
    return _load(code)


def _key() -> str:
    here = files("explorer.runtime.device_program")
    texts = [here.joinpath(name).read_text(encoding="utf-8") for name in SOURCES]
    machine = (platform.machine(), target().text)
    tools = (version("numba"), version("llvmlite"))
    return store.content_key("device program", *tools, *machine, *texts)


def _compile() -> bytes:
    """Return the machine code of `work_stealing.entry`."""
    entry = import_module("explorer.runtime.device_program.work_stealing").entry
    text = import_module("explorer.runtime.device_program.llvm_words").module_text(entry, SYMBOL)
    machine = import_module("explorer.codegen.cpu.jit")
    return bytes(machine.object_of(machine.optimised(text, target(), level=3), target()))


def _load(code: bytes) -> Native:
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(SYMBOL)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return Native(kind(address), address, engine)
