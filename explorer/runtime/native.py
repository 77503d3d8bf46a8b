"""The interpreter as machine code: loaded from the cache, or compiled where it is not there.

Loading needs llvmlite alone; Numba is imported on a miss only, which keeps a warm start short.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from threading import Lock
from typing import Any

import llvmlite.binding as llvm

from explorer import cache as store

SYMBOL = "ironworks_device"
SOURCES = ("instructions.py", "intrinsics.py", "waiting.py", "device_program.py", "hands.py")
Entry = Callable[[int, int, int], int]
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Native:
    """The entry function, which is called without the GIL, and what keeps its code in memory."""

    call: Entry
    address: int
    engine: Any


def _fresh_lock() -> None:
    global _lock
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


def native() -> Native:
    """The interpreter of this process."""
    with _lock:
        return _native()


@cache
def _native() -> Native:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    key = _key()
    code = store.get(key)
    if code is None:
        code = _compiled()
        store.put(key, code)
    return _loaded(code)


def _key() -> str:
    here = files("explorer.runtime")
    texts = [here.joinpath(name).read_text(encoding="utf-8") for name in SOURCES]
    features = llvm.get_host_cpu_features().flatten()
    machine = (platform.machine(), llvm.get_host_cpu_name(), features)
    tools = (version("numba"), version("llvmlite"))
    return store.content_key("device program", *tools, *machine, *texts)


def _compiled() -> bytes:
    """Numba's machine code for `hands.entry`, cut down to what the entry needs."""
    dispatcher = import_module("explorer.runtime.hands").entry
    result = dispatcher.overloads[dispatcher.signatures[0]]
    library = result.library
    module = llvm.parse_assembly(str(library._final_module))
    module.link_in(llvm.parse_assembly(_wrapper(result.fndesc.llvm_func_name, module)))
    for function in module.functions:
        if not function.is_declaration and function.name != SYMBOL:
            function.linkage = "internal"
    machine = library.codegen._tm
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return bytes(machine.emit_object(module))


def _wrapper(inner: str, module: Any) -> str:
    """A C function around Numba's, which takes places for its result and its exception first."""
    return f"""
        target triple = "{module.triple}"
        target datalayout = "{module.data_layout}"
        declare i32 @{inner}(ptr, ptr, i64, i64, i64)
        define i64 @{SYMBOL}(i64 %ask, i64 %team, i64 %what) {{
          %result = alloca i64
          %problem = alloca ptr
          store i64 0, ptr %result
          %status = call i32 @{inner}(ptr %result, ptr %problem, i64 %ask, i64 %team, i64 %what)
          %value = load i64, ptr %result
          ret i64 %value
        }}"""


def _loaded(code: bytes) -> Native:
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(SYMBOL)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return Native(kind(address), address, engine)
