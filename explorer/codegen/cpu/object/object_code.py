"""Machine code of kernel sources, cached as object files under content hashes.

A warm start compiles and unpickles nothing.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary, finalize

import llvmlite
import numba
from llvmlite.binding.ffi import lib
from numba.core.compiler_lock import global_compiler_lock

from explorer.cache import get, put
from explorer.codegen.cpu.math.conversions import NotTranslated
from explorer.codegen.cpu.object.jit_linker import (
    assembly_of,
    machine_parts,
    object_of,
    optimised,
)
from explorer.codegen.cpu.object.jit_memory import JitEngine, JitMemory
from explorer.codegen.cpu.object.marked_text import assembly_listing, llvm_listing
from explorer.codegen.cpu.object.source_digest import generator_text
from explorer.codegen.cpu.object.translate import translate
from explorer.codegen.current_target import compiling_for
from explorer.codegen.listing import Listing, Listings
from explorer.counters import counters
from explorer.devices.target import Target
from explorer.errors import KernelCompileError
from explorer.forking import waits_for

FORMAT = "object-code-3"
# Notes on the source lines of a disassembled kernel.
EXACT = (
    "This is the code that runs: a copy with line marks was compiled to the same bytes. What LLVM "
    "merged from several lines has none; what spills registers has that of the line before."
)
BY_NUMBA = "Numba's own front end compiled this kernel, and keeps no lines of it."
OTHER_CODE = "With line marks LLVM makes other code of this kernel, so its lines are not known."
_lock = threading.RLock()
_memory = JitMemory()
_loaded: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()
_unused: deque[tuple[JitEngine, str]] = deque()  # appended by the collector, removed under the lock


# No other thread is inside of Numba or LLVM when a process forks.
for _rank, _guard in enumerate((_lock, global_compiler_lock, lib._lock), start=1):
    waits_for(_rank, _guard)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class MachineCode:
    """One compiled function: its address and its object file.

    It stays in memory while this object lives: an owner of the address must keep this object.
    """

    key: str
    address: int
    object_bytes: bytes
    symbol: str
    seconds: float  # spent compiling; 0 if loaded


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """An object file with one C function."""

    key: str
    symbol: str
    code: bytes


TOOLS = f"{FORMAT} {numba.__version__} {llvmlite.__version__}"


@lru_cache(maxsize=1024)
def key_of(source: str, target: Target, function: str = "kernel") -> str:
    """Return the content hash of a kernel: its source, its target, and the tools."""
    parts = (TOOLS, target.text, generator_text(source), function, source)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compile_cfunc(source: str, target: Target, function: str = "kernel") -> MachineCode:
    """Return the machine code of a C function in printed source, from memory, disk, or LLVM."""
    key = key_of(source, target, function)
    with _lock:
        code = loaded(key)
        if code is None:
            begin = time.perf_counter()
            object_code = compiled(key, source, target, function)
            code = cache_object(object_code, time.perf_counter() - begin)
        return code


def loaded(key: str) -> MachineCode | None:
    """Return the machine code under a key, from memory or disk; None: it must be compiled."""
    with _lock:
        code = _loaded.get(key)
        if code is not None:
            counters.add("cache_hits_memory")
            return code
        data = get(key)
        return None if data is None else _load_object(_unpacked(key, data), 0.0)


def cache_object(object_code: ObjectCode, seconds: float) -> MachineCode:
    """Load object code that was compiled here or by a helper, and cache it on disk."""
    with _lock:
        counters.add("kernel_compiles")
        code = _load_object(object_code, seconds)
        put(object_code.key, _packed(object_code), "kernel")
        return code


def compile_uncached(source: str, target: Target, function: str = "kernel") -> MachineCode:
    """Return the machine code of a foreign source, without caching it.

    The head of a source is executed: use it in a short-lived process only.
    """
    with _lock:
        key = key_of(source, target, function)
        return _load_object(compiled(key, source, target, function), 0.0)


def compiled(key: str, source: str, target: Target, function: str = "kernel") -> ObjectCode:
    """Return the object file of a source.

    Raises KernelCompileError with the first informative line.
    """
    try:
        with compiling_for(target):
            return _compile(key, source, target, function)
    except Exception as error:
        cause = compile_problem(error)
        raise KernelCompileError(f"kernel {key[:8]} does not compile: {cause}") from error


def compile_problem(error: BaseException) -> str:
    """Return the line of an error of Numba's that says what is wrong; its first ones do not."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = (line for line in lines if not line.startswith(("Failed in", "During")))
    return next(telling, "") or next(iter(lines), type(error).__name__)


def _compile(key: str, source: str, target: Target, function: str) -> ObjectCode:
    """Compile a source with our front end; Numba's takes what ours does not support."""
    symbol = f"kernel_{key}"
    try:
        text = translate(source, function, symbol)
    except NotTranslated:
        library, symbol = _compile_with_numba(key, source, function)
        return ObjectCode(key, symbol, library._get_compiled_object())
    return ObjectCode(key, symbol, object_of(optimised(text, target), target))


def _compile_with_numba(key: str, source: str, function: str) -> tuple[Any, str]:
    """Return Numba's code library with the C function, and the function's name in it."""
    if getattr(numba.config, "DISABLE_JIT", 0):  # Numba sets it on import
        raise KernelCompileError(
            "it needs Numba's compiler, which NUMBA_DISABLE_JIT switches off",
            try_="unset NUMBA_DISABLE_JIT",
        )
    space: dict[str, Any] = {}
    exec(compile(source, f"<kernel {key[:8]}>", "exec"), space)
    cfunc = space[function]
    return cfunc._library, str(cfunc._wrapper_name)


def _packed(object_code: ObjectCode) -> bytes:
    head = object_code.symbol.encode()
    return struct.pack("<I", len(head)) + head + object_code.code


def _unpacked(key: str, data: bytes) -> ObjectCode:
    (length,) = struct.unpack_from("<I", data)
    return ObjectCode(key, data[4 : 4 + length].decode(), data[4 + length :])


def _load_object(object_code: ObjectCode, seconds: float) -> MachineCode:
    """Load an object file; code that Numba named gets an engine of its own."""
    _unload_unused()
    address, engine = _memory.load(
        object_code.code, object_code.symbol, object_code.symbol == f"kernel_{object_code.key}"
    )
    machine_code = MachineCode(
        object_code.key, address, object_code.code, object_code.symbol, seconds
    )
    finalize(
        machine_code, _unused.append, (engine, object_code.symbol)
    ).atexit = False  # workers may still run it
    _loaded[object_code.key] = machine_code
    return machine_code


def _unload_unused() -> None:
    """Unload code that no compilation uses any more.

    It happens here, not in the garbage collector, which may run in the middle of LLVM's work.
    """
    while _unused:
        _memory.release(*_unused.popleft())


def in_memory() -> tuple[int, int]:
    """Return the number of functions in memory, and the bytes of their object files."""
    with _lock:
        _unload_unused()
        return _memory.functions, _memory.size_bytes


def disassemble(
    code: MachineCode, source: str, target: Target, function: str = "kernel"
) -> Listings:
    """Return LLVM IR and assembly of a kernel, compiled again for the text.

    They have source lines if the copy with line marks is the same code.
    """
    try:
        with compiling_for(target):
            text = translate(source, function, code.symbol, marked=True)
            listings = Listings(*_listings(text, target), EXACT)
            marked_object = object_of(optimised(text, target), target)
            if machine_parts(marked_object) == machine_parts(code.object_bytes):
                return listings
            llvm, assembly = _listings(translate(source, function, code.symbol), target)
    except NotTranslated:
        library, _ = _compile_with_numba(code.key, source, function)
        llvm, assembly = Listing(library.get_llvm_str()), Listing(library.get_asm_str())
        return Listings(llvm, assembly, BY_NUMBA)
    return Listings(Listing(llvm.text), Listing(assembly.text), OTHER_CODE)


def _listings(text: str, target: Target) -> tuple[Listing, Listing]:
    """Return LLVM IR after optimisation, before assembly printing changes it, and the assembly."""
    module = optimised(text, target)
    llvm = llvm_listing(str(module))
    return llvm, assembly_listing(assembly_of(module, target))
