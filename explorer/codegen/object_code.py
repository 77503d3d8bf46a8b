"""Numba source to machine code, kept as an object file under a content hash: a warm start compiles
and unpickles nothing.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba

from explorer.cache import DiskStore, disk
from explorer.counters import counters
from explorer.errors import KernelCompileError

FORMAT = "object-code-1"
MICRO_KERNELS = ("explorer.codegen.micro_kernel", "explorer.codegen.micro_elements")
ELEMENTARY = ("terms", "elementary", "vector_math", "vector_operations", "vector_nest")
FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "erf", "power")  # of vector_math
_lock = threading.RLock()
_loaded: dict[str, MachineCode] = {}
_engines: list[Any] = []  # keeps the machine code mapped


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One compiled function: its address and the object file that it came from."""

    key: str
    address: int
    object_bytes: bytes
    symbol: str
    seconds: float  # spent compiling; 0 where it was loaded


@cache
def target_text() -> str:
    """What object code depends on besides the source: the processor, its features, and the versions
    of the tools.
    """
    features = llvm.get_host_cpu_features().flatten()
    return (
        f"{FORMAT} {llvm.get_host_cpu_name()} {features} {numba.__version__} {llvmlite.__version__}"
    )


def generator_text(source: str) -> str:
    """A hash of the code that a generated source calls: a changed helper makes another key."""
    calls = any(f"{f}{bits}(" in source for f in FUNCTIONS for bits in (32, 64))
    calls = calls or "vector_nest(" in source
    return _hash_of("micro_kernel(" in source, calls)


@cache
def _hash_of(contracts: bool, functions: bool) -> str:
    from explorer.codegen import memory, narrow, scalar, simd, whole_numbers

    modules = [memory, narrow, scalar, simd, whole_numbers]
    if contracts:
        modules += map(import_module, MICRO_KERNELS)
    if functions:
        modules += (import_module(f"explorer.codegen.{name}") for name in ELEMENTARY)
    digest = hashlib.blake2b(digest_size=16)
    for module in modules:
        with open(str(module.__file__), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def key_of(source: str, function: str = "kernel") -> str:
    """The content hash of a kernel."""
    parts = (target_text(), generator_text(source), function, source)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compile_cfunc(source: str, function: str = "kernel") -> MachineCode:
    """The machine code of a C function in a source text of our own making; from memory, disk, or
    LLVM, in that order.
    """
    key = key_of(source, function)
    with _lock:
        if key in _loaded:
            counters.add("cache_hits_memory")
            return _loaded[key]
        found = _from_disk(disk(), key)
        if found is None:
            counters.add("cache_misses")
            found = _compile(disk(), key, source, function)
        else:
            counters.add("cache_hits_disk")
        _loaded[key] = found
        return found


def _from_disk(store: DiskStore, key: str) -> MachineCode | None:
    data = store.get(key)
    if data is None:
        return None
    (length,) = struct.unpack_from("<I", data)
    symbol, code = data[4 : 4 + length].decode(), data[4 + length :]
    return MachineCode(key, _load(code, symbol), code, symbol, 0.0)


def _compile(store: DiskStore, key: str, source: str, function: str) -> MachineCode:
    begin = time.perf_counter()
    space: dict[str, Any] = {}
    try:
        exec(compile(source, f"<kernel {key[:8]}>", "exec"), space)
        compiled = space[function]
        library = compiled._library
        code: bytes = library._get_compiled_object()
        symbol: str = compiled._wrapper_name
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise KernelCompileError(f"kernel {key[:8]} does not compile: {first}") from error
    _engines.append(compiled)
    counters.add("kernel_compiles")
    head = symbol.encode()
    store.put(key, struct.pack("<I", len(head)) + head + code)
    return MachineCode(key, compiled.address, code, symbol, time.perf_counter() - begin)


def _load(code: bytes, symbol: str) -> int:
    module = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(
        module, llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    if not address:
        raise KernelCompileError(
            f"the cached object code has no function {symbol}: clear the cache"
        )
    _engines.append(engine)
    return int(address)


def disassemble(code: MachineCode, source: str, function: str = "kernel") -> tuple[str, str]:
    """(LLVM IR, assembly) of a kernel, compiled again for the text where it came from the cache."""
    space: dict[str, Any] = {}
    exec(compile(source, f"<kernel {code.key[:8]}>", "exec"), space)
    library = space[function]._library
    return str(library.get_llvm_str()), str(library.get_asm_str())
