"""Source of a kernel to machine code, kept as an object file under a content hash: a warm start
compiles and unpickles nothing.
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
from explorer.codegen.compiling import compiling_for
from explorer.codegen.cpu.math.conversions import NotTranslated
from explorer.codegen.cpu.object.jit_linker import (
    assembly_of,
    machine_parts,
    object_of,
    optimised,
)
from explorer.codegen.cpu.object.jit_memory import Shelf, Shelves
from explorer.codegen.cpu.object.marked_text import assembly_listing, llvm_listing
from explorer.codegen.cpu.object.source_digest import generator_text
from explorer.codegen.cpu.object.translate import translate
from explorer.codegen.listing import Listing, Listings
from explorer.counters import counters
from explorer.devices.target import Target
from explorer.errors import KernelCompileError
from explorer.forking import waits_for

FORMAT = "object-code-3"
# What a reader is told of the lines of a disassembled kernel.
EXACT = (
    "This is the code that runs: a copy with line marks was compiled to the same bytes. What LLVM "
    "merged from several lines has none; what spills registers has that of the line before."
)
BY_NUMBA = "Numba's own front end compiled this kernel, and keeps no lines of it."
OTHER_CODE = "With line marks LLVM makes other code of this kernel, so its lines are not known."
_lock = threading.RLock()
_shelves = Shelves()
_loaded: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()
_unused: deque[tuple[Shelf, str]] = deque()  # the collector puts in, whoever holds the lock removes


# No other thread is inside of Numba or LLVM when a process forks.
for _rank, _guard in enumerate((_lock, global_compiler_lock, lib._lock), start=1):
    waits_for(_rank, _guard)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class MachineCode:
    """One compiled function: its address and the object file that it came from. It lies in memory
    for as long as this lives: who keeps the address must keep this.
    """

    key: str
    address: int
    object_bytes: bytes
    symbol: str
    seconds: float  # spent compiling; 0 where it was loaded


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """An object file with one C function."""

    key: str
    symbol: str
    code: bytes


TOOLS = f"{FORMAT} {numba.__version__} {llvmlite.__version__}"


@lru_cache(maxsize=1024)
def key_of(source: str, target: Target, function: str = "kernel") -> str:
    """The content hash of a kernel: its source, what it is for, and the tools."""
    parts = (TOOLS, target.text, generator_text(source), function, source)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compile_cfunc(source: str, target: Target, function: str = "kernel") -> MachineCode:
    """The machine code of a C function in a source text of our own making; from memory, disk, or
    LLVM, in that order.
    """
    key = key_of(source, target, function)
    with _lock:
        found = loaded(key)
        if found is None:
            begin = time.perf_counter()
            made = compiled(key, source, target, function)
            found = keep(made, time.perf_counter() - begin)
        return found


def loaded(key: str) -> MachineCode | None:
    """The machine code under a key, from memory or disk; None: it must be compiled."""
    with _lock:
        found = _loaded.get(key)
        if found is not None:
            counters.add("cache_hits_memory")
            return found
        data = get(key)
        return None if data is None else _mapped(_unpacked(key, data), 0.0)


def keep(made: ObjectCode, seconds: float) -> MachineCode:
    """What was compiled, here or by a helper, in memory and on disk from now on."""
    with _lock:
        counters.add("kernel_compiles")
        found = _mapped(made, seconds)
        put(made.key, _packed(made), "kernel")
        return found


def compile_unkept(source: str, target: Target, function: str = "kernel") -> MachineCode:
    """The machine code of a source that is not of our making, of which nothing is kept: for a
    process that is gone afterwards, since the head of a source is run.
    """
    with _lock:
        key = key_of(source, target, function)
        return _mapped(compiled(key, source, target, function), 0.0)


def compiled(key: str, source: str, target: Target, function: str = "kernel") -> ObjectCode:
    """The object file of a source.

    Raises KernelCompileError with the first line that says what was wrong.
    """
    try:
        with compiling_for(target):
            return _compiled(key, source, target, function)
    except Exception as error:
        cause = compile_problem(error)
        raise KernelCompileError(f"kernel {key[:8]} does not compile: {cause}") from error


def compile_problem(error: BaseException) -> str:
    """Return the line of an error of Numba's that says what is wrong; its first ones do not."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = (line for line in lines if not line.startswith(("Failed in", "During")))
    return next(telling, "") or next(iter(lines), type(error).__name__)


def _compiled(key: str, source: str, target: Target, function: str) -> ObjectCode:
    """Numba's front end is asked where ours does not know a word."""
    symbol = f"kernel_{key}"
    try:
        text = translate(source, function, symbol)
    except NotTranslated:
        library, symbol = _by_numba(key, source, function)
        return ObjectCode(key, symbol, library._get_compiled_object())
    return ObjectCode(key, symbol, object_of(optimised(text, target), target))


def _by_numba(key: str, source: str, function: str) -> tuple[Any, str]:
    """Numba's code library with the C function, and the function's name in it."""
    if getattr(numba.config, "DISABLE_JIT", 0):  # its settings are made as it is loaded
        raise KernelCompileError(
            "it needs Numba's compiler, which NUMBA_DISABLE_JIT switches off",
            try_="unset NUMBA_DISABLE_JIT",
        )
    space: dict[str, Any] = {}
    exec(compile(source, f"<kernel {key[:8]}>", "exec"), space)
    made = space[function]
    return made._library, str(made._wrapper_name)


def _packed(made: ObjectCode) -> bytes:
    head = made.symbol.encode()
    return struct.pack("<I", len(head)) + head + made.code


def _unpacked(key: str, data: bytes) -> ObjectCode:
    (length,) = struct.unpack_from("<I", data)
    return ObjectCode(key, data[4 : 4 + length].decode(), data[4 + length :])


def _mapped(made: ObjectCode, seconds: float) -> MachineCode:
    """The object file in memory; what Numba named does not say what it is, and lies by itself."""
    _let_go()
    address, shelf = _shelves.put(made.code, made.symbol, made.symbol == f"kernel_{made.key}")
    found = MachineCode(made.key, address, made.code, made.symbol, seconds)
    finalize(found, _unused.append, (shelf, made.symbol)).atexit = False  # workers may still run it
    _loaded[made.key] = found
    return found


def _let_go() -> None:
    """What no compilation has any more goes out of memory: here, not in the collector, which may
    come in the middle of LLVM's work.
    """
    while _unused:
        _shelves.take(*_unused.popleft())


def in_memory() -> tuple[int, int]:
    """How many functions lie in memory as machine code, and the bytes of their object files."""
    with _lock:
        _let_go()
        return _shelves.functions, _shelves.size_bytes


def disassemble(
    code: MachineCode, source: str, target: Target, function: str = "kernel"
) -> Listings:
    """LLVM IR and assembly of a kernel, compiled again for the text, with the lines of the source
    that they come from where the copy that tells them is the same code.
    """
    try:
        with compiling_for(target):
            text = translate(source, function, code.symbol, marked=True)
            listings = Listings(*_listed(text, target), EXACT)
            again = object_of(optimised(text, target), target)
            if machine_parts(again) == machine_parts(code.object_bytes):
                return listings
            llvm, assembly = _listed(translate(source, function, code.symbol), target)
    except NotTranslated:
        library, _ = _by_numba(code.key, source, function)
        llvm, assembly = Listing(library.get_llvm_str()), Listing(library.get_asm_str())
        return Listings(llvm, assembly, BY_NUMBA)
    return Listings(Listing(llvm.text), Listing(assembly.text), OTHER_CODE)


def _listed(text: str, target: Target) -> tuple[Listing, Listing]:
    """LLVM IR after its optimisation, which writing assembly would change, and the assembly."""
    module = optimised(text, target)
    llvm = llvm_listing(str(module))
    return llvm, assembly_listing(assembly_of(module, target))
