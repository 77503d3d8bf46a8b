"""Machine code of kernel sources, cached as object files under content hashes.

A warm start compiles and unpickles nothing. The key of a source holds the content of the files that
it is compiled with. Listings are made of a copy with line marks, and split into the unmarked text
and its source lines.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

import llvmlite
from llvmlite.binding.ffi import lib

from explorer.cache import get, put
from explorer.codegen.cpu.jit import (
    JitEngine,
    JitMemory,
    assembly_of,
    machine_parts,
    object_of,
    optimised,
)
from explorer.devices.isa import InstructionSet
from explorer.devices.listing import Listing, Listings
from explorer.errors import KernelCompileError
from explorer.process.counters import counters
from explorer.process.forking import waits_for

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
TOOLS = f"{FORMAT} {version('numba')} {llvmlite.__version__}"
ROOM = "explorer.codegen"
FOLDER = Path(__file__).parents[1]
FROM_SOURCE_TO_CODE = ("cpu.jit", "cpu.translate", "cpu.translate_values")  # for every source
WORD = re.compile(r"[A-Za-z_]\w*")
DEFINED = re.compile(r"^(?:def (\w+)|([A-Za-z_][\w, ]*)(?:: [^=\n]+)? = )", re.MULTILINE)
IMPORTED = re.compile(
    rf"^ *from {re.escape(ROOM)}\.([\w.]+) import (\([^)]*\)|[^\n(]+)", re.MULTILINE
)
_PLACE = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.MULTILINE)
_OPENS = re.compile(r"^(!\d+) = distinct !DISubprogram\(.*?\bline: (\d+)", re.MULTILINE)
_MARK = re.compile(r",? !dbg (!\d+)")
_METADATA = re.compile(r"^(![\w.]+) = ")
_NUMBER = re.compile(r"!\d+\b")
_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_SECTION = re.compile(r"\t\.section\t\"?([\w.,]+)")
_OF_MARKS = re.compile(r"\t\.(?:loc|cfi_\w+|file\t\d)\b|\.?L(?:tmp|func_begin)\d+:")
_DEBUG = (".debug_", "__DWARF")
_INSTRUCTION = re.compile(r"\t[a-z]")


class _NumbaLock:
    """The lock of Numba's compiler, if Numba is loaded: machine code from disk needs no Numba."""

    def __init__(self) -> None:
        """Create it; each thread that forks holds a lock of its own."""
        self.acquired = threading.local()

    def __enter__(self) -> None:
        """Acquire the lock, if there is one yet."""
        module = sys.modules.get("numba.core.compiler_lock")
        self.acquired.lock = getattr(module, "global_compiler_lock", None)
        if self.acquired.lock is not None:
            self.acquired.lock.__enter__()

    def __exit__(self, *exception: object) -> None:
        """Release what was acquired."""
        if self.acquired.lock is not None:
            self.acquired.lock.__exit__(*exception)


# No other thread is inside of Numba or LLVM when a process forks.
for _rank, _guard in enumerate((_lock, _NumbaLock(), lib._lock), start=1):
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


@lru_cache(maxsize=1024)
def key_of(source: str, target: InstructionSet, function: str = "kernel") -> str:
    """Return the content hash of a kernel: its source, its target, and the tools."""
    parts = (TOOLS, target.text, generator_text(source), function, source)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compile_cfunc(source: str, target: InstructionSet, function: str = "kernel") -> MachineCode:
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


def compile_uncached(source: str, target: InstructionSet, function: str = "kernel") -> MachineCode:
    """Return the machine code of a foreign source, without caching it.

    The head of a source is executed: use it in a short-lived process only.
    """
    with _lock:
        key = key_of(source, target, function)
        return _load_object(compiled(key, source, target, function), 0.0)


def compiled(key: str, source: str, target: InstructionSet, function: str = "kernel") -> ObjectCode:
    """Return the object file of a source.

    Raises KernelCompileError with the first informative line.
    """
    from explorer.codegen.cpu.llvm_value import compiling_for

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


def _compile(key: str, source: str, target: InstructionSet, function: str) -> ObjectCode:
    """Compile a source with our front end; Numba's takes what ours does not support."""
    from explorer.codegen.cpu.translate import translate  # it loads Numba
    from explorer.codegen.cpu.translate_values import NotTranslated

    symbol = f"kernel_{key}"
    try:
        text = translate(source, function, symbol)
    except NotTranslated:
        library, symbol = _compile_with_numba(key, source, function)
        return ObjectCode(key, symbol, library._get_compiled_object())
    return ObjectCode(key, symbol, object_of(optimised(text, target), target))


def _compile_with_numba(key: str, source: str, function: str) -> tuple[Any, str]:
    """Return Numba's code library with the C function, and the function's name in it."""
    import numba

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
    code: MachineCode, source: str, target: InstructionSet, function: str = "kernel"
) -> Listings:
    """Return LLVM IR and assembly of a kernel, compiled again for the text.

    They have source lines if the copy with line marks is the same code.
    """
    from explorer.codegen.cpu.llvm_value import compiling_for
    from explorer.codegen.cpu.translate import translate
    from explorer.codegen.cpu.translate_values import NotTranslated

    try:
        with compiling_for(target):
            text = translate(source, function, code.symbol, marked=True)
            listings = Listings(*line_listings(text, target), EXACT)
            marked_object = object_of(optimised(text, target), target)
            if machine_parts(marked_object) == machine_parts(code.object_bytes):
                return listings
            llvm, assembly = line_listings(translate(source, function, code.symbol), target)
    except NotTranslated:
        library, _ = _compile_with_numba(code.key, source, function)
        llvm, assembly = Listing(library.get_llvm_str()), Listing(library.get_asm_str())
        return Listings(llvm, assembly, BY_NUMBA)
    return Listings(Listing(llvm.text), Listing(assembly.text), OTHER_CODE)


def line_listings(text: str, target: InstructionSet) -> tuple[Listing, Listing]:
    """Return LLVM IR after optimisation, before assembly printing changes it, and the assembly."""
    module = optimised(text, target)
    llvm = llvm_listing(str(module))
    return llvm, assembly_listing(assembly_of(module, target))


@dataclass(frozen=True, slots=True)
class _File:
    """A file of this package: a hash of its text, the names it defines, and its local imports."""

    digest: bytes
    names: frozenset[str]
    imports: frozenset[str]


def generator_text(source: str) -> str:
    """Return a hash of the files that a generated source is compiled with.

    A changed helper changes the keys of the sources that call it, and no others.
    """
    imported = re.findall(rf"^from {re.escape(ROOM)}\.([\w.]+) import (.+)$", source, re.MULTILINE)
    body = frozenset(WORD.findall(re.sub(r"^from .*$", "", source, flags=re.MULTILINE)))
    called = (
        name
        for name, names in imported
        if body & (_file(name).names if names == "*" else frozenset(WORD.findall(names)))
    )
    return _hash_of(frozenset((*FROM_SOURCE_TO_CODE, *called)))


@cache
def _hash_of(names: frozenset[str]) -> str:
    """Return a hash of files and of all files that they import from this package."""
    todo, seen = list(names), set(names)
    while todo:
        for name in _file(todo.pop()).imports - seen:
            seen.add(name)
            todo.append(name)
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(seen):
        digest.update(_file(name).digest)
    return digest.hexdigest()


@cache
def _file(name: str) -> _File:
    """Return a parsed file of this package by its dotted name."""
    text = _path(name).read_text(encoding="utf-8")
    defined = DEFINED.findall(text)
    names = (
        word
        for function, assigned in defined
        for word in (function, *WORD.findall(assigned))
        if word
    )
    imports = (
        file for module, imported in IMPORTED.findall(text) for file in _files(module, imported)
    )
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return _File(digest, frozenset(names), frozenset(imports))


def _files(module: str, imported: str) -> list[str]:
    """Return the files that an import names: the module, or modules of a folder."""
    if _path(module).is_file():
        return [module]
    return [
        f"{module}.{word}" for word in WORD.findall(imported) if _path(f"{module}.{word}").is_file()
    ]


def _path(name: str) -> Path:
    return FOLDER.joinpath(*name.split(".")).with_suffix(".py")


def llvm_listing(marked: str) -> Listing:
    """Return LLVM IR without its marks, with metadata renumbered as in an unmarked module."""
    places = {name: int(line) for name, line in (_PLACE.findall(marked) + _OPENS.findall(marked))}
    text, lines, metadata = list[str](), list[int](), dict[str, str]()
    for line in marked.rstrip("\n").split("\n"):
        if head := _METADATA.match(line):
            metadata[head.group(1)] = line
            continue
        mark = _MARK.search(line)
        text.append(_MARK.sub("", line) if mark else line)
        lines.append(places.get(mark.group(1), 0) if mark else 0)
    while text and not text[-1]:
        text.pop()
    used = _used("\n".join(text), metadata)
    names = {name: f"!{n}" for n, name in enumerate(used)}
    listing = "\n".join([*text, *([""] if used else []), *(metadata[name] for name in used)])
    listing = _NUMBER.sub(lambda m: names.get(m.group(), m.group()), listing)
    return Listing(
        f"{listing}\n",
        (*lines[: len(text)], *(0 for _ in range(listing.count("\n") + 1 - len(text)))),
    )


def _used(text: str, metadata: dict[str, str]) -> list[str]:
    """Return the metadata that a text refers to, in the order of first use."""
    used: dict[str, None] = {}
    todo = _NUMBER.findall(text)
    while todo:
        name = todo.pop(0)
        if name in metadata and name not in used:
            used[name] = None
            todo += _NUMBER.findall(metadata[name].partition(" = ")[2])
    return list(used)


def assembly_listing(marked: str) -> Listing:
    """Return assembly without its marks and the debug sections."""
    text, lines = list[str](), list[int]()
    now, skipping = 0, False
    for line in marked.rstrip("\n").split("\n"):
        if section := _SECTION.match(line):
            skipping = section.group(1).startswith(_DEBUG)
        if skipping:
            continue
        if loc := _LOC.match(line):
            now = int(loc.group(1))
        if not _OF_MARKS.match(line):
            text.append(line)
            lines.append(now if _INSTRUCTION.match(line) else 0)
    return Listing("\n".join(text) + "\n", tuple(lines))
