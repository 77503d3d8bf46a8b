"""Numba CUDA source -> PTX and machine code for a compute capability, on any machine that has
numba-cuda, with a GPU or without one; kept in memory and on disk, as a CPU's code is.
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
from explorer.counters import counters
from explorer.errors import KernelCompileError
from explorer.ir.dtypes import DType

FORMAT = "cuda-code-1"
TOOLS = ("numba", "llvmlite", "numba-cuda", "cuda-bindings", "nvidia-nvjitlink", "nvidia-nvvm")
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One kernel: its PTX, the object file that a driver loads, in which it is the function
    `entry`, and what the assembler told of it.
    """

    ptx: str
    cubin: bytes
    log: str

    @property
    def entry(self) -> str:
        """The name of the kernel in the object file."""
        found = ENTRY.search(self.ptx)
        if found is None:
            raise KernelCompileError("PTX without a kernel", where="kernel")
        return found.group(1)


@lru_cache(maxsize=256)
def machine_code(
    source: str, kernel: str, dtypes: tuple[DType, ...], threads: int, capability: int
) -> MachineCode:
    """The code of a kernel of a source text of our own making, whose arguments are flat arrays of
    these dtypes, for blocks of so many threads; `capability` in tenths.

    Raises KernelCompileError where Numba or the assembler refuses.
    """
    asked = (kernel, *dtypes, str(threads), str(capability))
    key = content_key(FORMAT, *_tools(), *asked, source)
    data = get(key)
    found = None if data is None else _unpacked(data)
    if found is not None:
        return found
    try:
        ptx = _ptx(source, kernel, dtypes, threads, divmod(capability, 10))
        made = MachineCode(ptx, *_linked(ptx, f"-arch=sm_{capability}"))
    except Exception as problem:  # numba's and the linker's are of many kinds
        first = str(problem).strip().split("\n")[0]
        raise KernelCompileError(f"a thread block has no PTX: {first}", where="kernel") from problem
    counters.add("kernel_compiles")
    put(key, _packed(made), "kernel")
    return made


@lru_cache(maxsize=1)
def _tools() -> tuple[str, ...]:
    """The versions of all that has a part in it."""

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
    """None where it is no such code."""
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
    """The PTX of a kernel with marks of the lines of its source, to be looked at.

    Raises KernelCompileError where Numba refuses.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the source is in no file
        try:
            return _ptx(source, kernel, dtypes, threads, divmod(capability, 10), marked=True)
        except Exception as problem:  # numba's are of many kinds
            raise KernelCompileError(f"no PTX with lines: {problem}", where="kernel") from problem


@lru_cache(maxsize=64)
def marked_cubin(ptx: str, capability: int) -> bytes:
    """The object file of PTX that has such marks, with them, to be looked at.

    Raises KernelCompileError where the assembler refuses.
    """
    try:
        return _linked(ptx, f"-arch=sm_{capability}", "-lineinfo")[0]
    except Exception as problem:  # the linker's are of many kinds
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
    cuda, types = import_module("numba.cuda"), import_module("numba.types")
    names: dict[str, Any] = {"__name__": "thread_block"}
    exec(source, names)
    numbers = (getattr(types, "boolean" if dtype == "bool" else dtype) for dtype in dtypes)
    signature = tuple(number[::1] for number in numbers)
    with _as_on(capability):
        found, _ = cuda.compile_ptx(
            names[kernel].py_func, signature, cc=capability, launch_bounds=threads, lineinfo=marked
        )
    return str(found)


@contextmanager
def _as_on(capability: tuple[int, int]) -> Iterator[None]:
    """Inside, functions that a kernel calls are compiled for a capability, where numba-cuda would
    ask the device that is there; one thread at a time.
    """
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    with _ONE_AT_A_TIME:
        before = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = before


def _linked(ptx: str, *options: str) -> tuple[bytes, str]:
    """The object file of PTX, and what the linker tells of it."""
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
