"""Numba CUDA source -> PTX and machine code for a compute capability.

It runs on any machine that has numba-cuda, with or without a GPU. The code is cached in memory and
on disk, like a CPU's.
"""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import SimpleNamespace
from typing import Any

from explorer.cache import content_key, get, put
from explorer.errors import KernelCompileError
from explorer.ir.dtypes import DType
from explorer.process.counters import counters

FORMAT = "cuda-code-1"
TOOLS = ("numba", "llvmlite", "numba-cuda", "cuda-bindings", "nvidia-nvjitlink", "nvidia-nvvm")
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One kernel: its PTX, the object file that a driver loads, and the assembler's log.

    In the object file the kernel is the function `entry`.
    """

    ptx: str
    cubin: bytes
    log: str

    @property
    def entry(self) -> str:
        """The name of the kernel in the object file."""
        match = ENTRY.search(self.ptx)
        if match is None:
            raise KernelCompileError("PTX without a kernel", where="kernel")
        return match.group(1)


@lru_cache(maxsize=256)
def machine_code(
    source: str, kernel: str, dtypes: tuple[DType, ...], threads: int, capability: int
) -> MachineCode:
    """Return the code of a kernel from printed source, for blocks of `threads` threads.

    The arguments are flat arrays of these dtypes; `capability` is in tenths. Raises
    KernelCompileError if Numba or the assembler rejects the source.
    """
    request = (kernel, *dtypes, str(threads), str(capability))
    key = content_key(FORMAT, *_tools(), *request, source)
    data = get(key)
    cached = None if data is None else _unpacked(data)
    if cached is not None:
        return cached
    try:
        ptx = _ptx(source, kernel, dtypes, threads, divmod(capability, 10))
        code = MachineCode(ptx, *_link(ptx, f"-arch=sm_{capability}"))
    except Exception as problem:  # Numba and the linker raise many kinds
        first = str(problem).strip().split("\n")[0]
        raise KernelCompileError(f"a thread block has no PTX: {first}", where="kernel") from problem
    counters.add("kernel_compiles")
    put(key, _packed(code), "kernel")
    return code


@lru_cache(maxsize=1)
def _tools() -> tuple[str, ...]:
    """Return the versions of all tools that take part."""

    def of(name: str) -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"{name} none"

    return tuple(map(of, TOOLS))


def _packed(code: MachineCode) -> bytes:
    parts = (code.ptx.encode(), code.cubin, code.log.encode())
    return struct.pack("<3Q", *map(len, parts)) + b"".join(parts)


def _unpacked(data: bytes) -> MachineCode | None:
    """Return the code in a cache entry, None if it holds none."""
    head = struct.calcsize("<3Q")
    if len(data) < head:
        return None
    sizes = struct.unpack_from("<3Q", data)
    if head + sum(sizes) != len(data):
        return None
    first, second = head + sizes[0], head + sizes[0] + sizes[1]
    ptx, log = (data[a:b].decode() for a, b in ((head, first), (second, len(data))))
    return MachineCode(ptx, data[first:second], log)


@lru_cache(maxsize=64)
def marked_ptx(
    source: str, kernel: str, dtypes: tuple[DType, ...], threads: int, capability: int
) -> str:
    """Return the PTX of a kernel with marks of its source lines, for listings.

    Raises KernelCompileError if Numba rejects the source.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the source is in no file
        try:
            return _ptx(source, kernel, dtypes, threads, divmod(capability, 10), marked=True)
        except Exception as problem:  # Numba raises many kinds
            raise KernelCompileError(f"no PTX with lines: {problem}", where="kernel") from problem


@lru_cache(maxsize=64)
def marked_cubin(ptx: str, capability: int) -> bytes:
    """Return the object file of marked PTX, with its line marks, for listings.

    Raises KernelCompileError if the assembler rejects it.
    """
    try:
        return _link(ptx, f"-arch=sm_{capability}", "-lineinfo")[0]
    except Exception as problem:  # the linker raises many kinds
        raise KernelCompileError(f"no SASS with lines: {problem}", where="kernel") from problem


def _ptx(
    source: str,
    kernel: str,
    dtypes: tuple[DType, ...],
    threads: int,
    capability: tuple[int, int],
    *,
    marked: bool = False,
) -> str:
    """Return the PTX of a kernel; `marked`: with line information."""
    cuda, types = import_module("numba.cuda"), import_module("numba.types")
    names: dict[str, Any] = {"__name__": "thread_block"}
    exec(source, names)
    numbers = (getattr(types, "boolean" if dtype == "bool" else dtype) for dtype in dtypes)
    signature = tuple(number[::1] for number in numbers)
    with _compute_capability(capability):
        ptx, _ = cuda.compile_ptx(
            names[kernel].py_func, signature, cc=capability, launch_bounds=threads, lineinfo=marked
        )
    return str(ptx)


@contextmanager
def _compute_capability(capability: tuple[int, int]) -> Iterator[None]:
    """Compile functions that a kernel calls for a capability, one thread at a time.

    Otherwise numba-cuda would query the machine's device.
    """
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    with _ONE_AT_A_TIME:
        before = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = before


def _link(ptx: str, *options: str) -> tuple[bytes, str]:
    """Return the object file of PTX, and the linker's log."""
    linker: Any = import_module("cuda.bindings.nvjitlink")
    options, data = ("-verbose", *options), ptx.encode()
    handle = linker.create(len(options), list(options))
    try:
        linker.add_data(handle, linker.InputType.PTX, data, len(data), "kernel.ptx")
        linker.complete(handle)
        log = bytearray(linker.get_info_log_size(handle))
        linker.get_info_log(handle, log)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
    finally:
        linker.destroy(handle)
    return bytes(cubin), log.decode(errors="replace")
