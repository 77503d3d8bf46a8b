"""A linker of WebAssembly object files: one module that imports its memory and exports its kernels.

LLVM writes an object for each kernel, with its own numbers of types, functions and addresses, and
with relocations in place of them. The memory of a module is `stack | tables | whatever its host
places`: the tables begin at `data_at`, and the stack grows down from there. Format: WebAssembly
tool conventions, "Object file linking", version 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from explorer.errors import KernelCompileError

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, EXPORT, CODE, DATA = 0, 1, 2, 3, 7, 10, 11
FUNCTION_KIND, MEMORY_KIND, GLOBAL_KIND = 0, 2, 3
SYMBOL_FUNCTION, SYMBOL_DATA, SYMBOL_GLOBAL = range(3)
LOCAL, UNDEFINED, EXPLICIT_NAME = 0x02, 0x10, 0x40
SEGMENT_INFO, SYMBOLS = 5, 8  # of the linking section
FUNCTION_INDEX, ADDRESS, SIGNED_ADDRESS, ADDRESS_I32, TYPE_INDEX, GLOBAL_INDEX = 0, 3, 4, 5, 6, 7
ADDRESSES = (ADDRESS, SIGNED_ADDRESS, ADDRESS_I32)
WITH_ADDEND = (3, 4, 5, 8, 9, 11, 14, 15, 16)
I32_CONST, END = 0x41, b"\x0b"
VERSION = 2  # of the linking section
PADDED = 5  # bytes of a relocated number
STACK = "__stack_pointer"
STACK_GLOBAL = b"\x7f\1"  # a mutable i32
DATA_AT = 1 << 16  # a page of stack; kernels use some hundred bytes of it
PAGE_BYTES = 1 << 16
MOST_PAGES = 1 << 16  # of a memory of 32-bit addresses
LIMITED, SHARED = 1, 3  # flags of a memory with a maximum, and of one that threads share


@dataclass(frozen=True, slots=True)
class WasmModule:
    """A module's bytes, and what its host must provide.

    It imports `env.memory`, which has a maximum, `env.__stack_pointer` if `uses_stack` (a mutable
    i32, at first `data_at`), and the functions `imports` of `env`. Its host may use memory from
    `data_end` on, and let threads share it if the byte at `limits_at` is `SHARED`.
    """

    code: bytes
    exports: tuple[str, ...]
    imports: tuple[str, ...]
    uses_stack: bool
    data_at: int
    data_end: int
    limits_at: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    """An entry of an object's symbol table.

    `index` is that of a function, of a global, or of a data segment; `offset` that in the segment.
    """

    kind: int
    flags: int
    name: str
    index: int = 0
    offset: int = 0

    @property
    def is_undefined(self) -> bool:
        """True if another object or the host defines it."""
        return bool(self.flags & UNDEFINED)

    @property
    def is_local(self) -> bool:
        """True if other objects cannot refer to it."""
        return bool(self.flags & LOCAL)


@dataclass(frozen=True, slots=True)
class _Relocation:
    """A number in a section that linking changes: kind, place, symbol or type, addend."""

    kind: int
    offset: int
    index: int
    addend: int = 0


@dataclass(slots=True)
class _Object:
    """A parsed object file."""

    types: list[bytes] = field(default_factory=list)
    imports: list[tuple[str, int]] = field(default_factory=list)  # functions: name and type
    functions: list[int] = field(default_factory=list)  # types of the functions that it defines
    code: bytes = b""  # the section, with its count
    data: bytes = b""  # the section, with its count
    segments: list[tuple[int, int]] = field(default_factory=list)  # place in it, and size
    alignments: list[int] = field(default_factory=list)  # of the segments: bytes
    symbols: list[_Symbol] = field(default_factory=list)
    relocations: dict[int, list[_Relocation]] = field(default_factory=dict)  # by section


def undefined_functions(code: bytes) -> tuple[str, ...]:
    """Return the functions that an object refers to and does not define, sorted."""
    symbols = _parsed(code).symbols
    calls = (s.name for s in symbols if s.kind == SYMBOL_FUNCTION and s.is_undefined)
    return tuple(sorted(set(calls)))


def code_and_data(code: bytes) -> dict[str, bytes]:
    """Return the instructions and the constants of an object."""
    part = _parsed(code)
    return {"code": part.code, "data": part.data}


def link_wasm(objects: Sequence[bytes], data_at: int = DATA_AT) -> WasmModule:
    """Link object files to a module that exports every function that is not local.

    Args:
        objects: Object files of LLVM for wasm32, each without start code.
        data_at: Where tables of constants begin in memory, a multiple of 64; the stack lies below.

    Raises:
        KernelCompileError: An object needs what this linker has not, or two define one function.
    """
    return _Linker([_parsed(code) for code in objects], data_at).module()


class _Linker:
    """The numbers of all objects' functions, types and segments in one module."""

    def __init__(self, objects: list[_Object], data_at: int) -> None:
        self.objects = objects
        self.data_at = data_at
        self.types: dict[bytes, int] = {}
        self.defined: dict[str, int] = {}  # functions of all objects that are not local
        self.imports: dict[str, int] = {}  # undefined functions, and their types
        self.bases: list[int] = []  # of each object: its first function, without the imports
        self.places: list[list[int]] = []  # of each object: the addresses of its segments
        self.end = data_at
        self.functions: list[int] = []
        for number, part in enumerate(objects):
            self.bases.append(len(self.functions))
            self.functions += [self.type_number(part.types[t]) for t in part.functions]
            self.place_segments(part)
            self.define(part, number)
        for part in objects:
            for name, kind in part.imports:
                if name not in self.defined:
                    self.imports.setdefault(name, self.type_number(part.types[kind]))

    def type_number(self, signature: bytes) -> int:
        """Return the number of a function type."""
        return self.types.setdefault(signature, len(self.types))

    def place_segments(self, part: _Object) -> None:
        """Give each data segment of an object its address."""
        places = []
        for (_, size), alignment in zip(part.segments, part.alignments, strict=True):
            self.end = -(-self.end // alignment) * alignment
            places.append(self.end)
            self.end += size
        self.places.append(places)

    def define(self, part: _Object, number: int) -> None:
        """Enter the functions of an object that others may refer to."""
        for s in part.symbols:
            if s.kind != SYMBOL_FUNCTION or s.is_undefined or s.is_local:
                continue
            if s.name in self.defined:
                _refuse(f"two objects define the function {s.name}")
            self.defined[s.name] = self.bases[number] + s.index - len(part.imports)

    def function(self, number: int, symbol: _Symbol) -> int:
        """Return the number of a function that an object refers to."""
        part, first = self.objects[number], len(self.imports)
        if not symbol.is_undefined:
            return first + self.bases[number] + symbol.index - len(part.imports)
        if symbol.name in self.defined:
            return first + self.defined[symbol.name]
        return list(self.imports).index(symbol.name)

    def address(self, number: int, symbol: _Symbol) -> int:
        """Return the address of data that an object refers to."""
        if symbol.kind != SYMBOL_DATA or symbol.is_undefined:
            _refuse(f"a kernel needs the data {symbol.name!r}, which no object defines")
        return self.places[number][symbol.index] + symbol.offset

    def relocated(self, number: int, section: int, data: bytes) -> bytes:
        """Return a section of an object with the numbers of the module."""
        part, out = self.objects[number], bytearray(data)
        for r in part.relocations.get(section, ()):
            at = r.offset
            if r.kind == TYPE_INDEX:
                value = self.type_number(part.types[r.index])
            elif r.kind == FUNCTION_INDEX:
                value = self.function(number, part.symbols[r.index])
            elif r.kind == GLOBAL_INDEX and part.symbols[r.index].name == STACK:
                value = 0  # the only one
            elif r.kind in ADDRESSES:
                value = self.address(number, part.symbols[r.index]) + r.addend
            else:
                _refuse(f"a kernel needs a relocation of kind {r.kind}")
            if r.kind == ADDRESS_I32:
                out[at : at + 4] = value.to_bytes(4, "little")
            else:
                out[at : at + PADDED] = _padded(value)
        return bytes(out)

    def module(self) -> WasmModule:
        """Return the module."""
        code, data = b"", b""
        segments = 0
        for number, part in enumerate(self.objects):
            section = self.relocated(number, CODE, part.code)
            _, begin = read_number(section, 0) if section else (0, 0)
            code += section[begin:]
            tables = self.relocated(number, DATA, part.data)
            for (at, size), address in zip(part.segments, self.places[number], strict=True):
                place = bytes([0, I32_CONST]) + _signed(address) + END
                data += place + _number(size) + tables[at : at + size]
                segments += 1
        uses_stack = any(
            s.kind == SYMBOL_GLOBAL and s.name == STACK
            for part in self.objects
            for s in part.symbols
        )
        first = len(self.imports)
        exports = [
            _name(name) + bytes([FUNCTION_KIND]) + _number(first + index)
            for name, index in self.defined.items()
        ]
        types, imports = _vector(list(self.types)), _vector(self.import_entries(uses_stack))
        sections = [
            (TYPE, types),
            (IMPORT, imports),
            (FUNCTION, _vector([_number(t) for t in self.functions])),
            (EXPORT, _vector(exports)),
            (CODE, _number(len(self.functions)) + code),
        ]
        if segments:
            sections.append((DATA, _number(segments) + data))
        body = b"".join(bytes([kind]) + _number(len(text)) + text for kind, text in sections)
        limits_at = len(MAGIC + body) - len(body.partition(imports)[2]) - len(imports)
        limits_at += imports.index(MEMORY) + len(MEMORY)
        return WasmModule(
            MAGIC + body,
            tuple(self.defined),
            tuple(self.imports),
            uses_stack,
            self.data_at,
            self.end,
            limits_at,
        )

    def import_entries(self, uses_stack: bool) -> list[bytes]:
        """Return the imports of the module: functions first, for their numbers begin with them."""
        entries = [
            _name("env") + _name(name) + bytes([FUNCTION_KIND]) + _number(kind)
            for name, kind in self.imports.items()
        ]
        pages = _number(-(-self.end // PAGE_BYTES)) + _number(MOST_PAGES)
        entries.insert(0, MEMORY + bytes([LIMITED]) + pages)
        if uses_stack:
            entries.append(_name("env") + _name(STACK) + bytes([GLOBAL_KIND]) + STACK_GLOBAL)
        return entries


def _parsed(code: bytes) -> _Object:
    """Parse an object file."""
    if code[:8] != MAGIC:
        _refuse("a file is no WebAssembly object")
    part, kinds = _Object(), list[int]()
    for kind, data in _sections(code):
        kinds.append(kind)
        match kind:
            case 0:
                name, at = _read_name(data, 0)
                if name == "linking":
                    _read_linking(part, data, at)
                elif name.startswith("reloc."):
                    _read_relocations(part, data, at, kinds)
            case 1:
                part.types = list(_read_types(data))
            case 2:
                _read_imports(part, data)
            case 3:
                count, at = read_number(data, 0)
                for _ in range(count):
                    number, at = read_number(data, at)
                    part.functions.append(number)
            case 10:
                part.code = data
            case 11:
                _read_data(part, data)
            case 12:
                pass  # the number of segments, for instructions that kernels do not use
            case _:
                _refuse(f"a kernel's object has a section of kind {kind}")
    part.alignments += [1] * (len(part.segments) - len(part.alignments))
    return part


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each section."""
    at = len(MAGIC)
    while at < len(code):
        size, begin = read_number(code, at + 1)
        yield code[at], code[begin : begin + size]
        at = begin + size


def _read_types(data: bytes) -> Iterator[bytes]:
    """Yield the bytes of each function type."""
    count, at = read_number(data, 0)
    for _ in range(count):
        begin = at
        at += 1
        for _ in range(2):  # parameters, results: a byte each
            values, at = read_number(data, at)
            at += values
        yield data[begin:at]


def _read_imports(part: _Object, data: bytes) -> None:
    """Read the imported functions of an object; memory, stack and table have no numbers in code."""
    count, at = read_number(data, 0)
    for _ in range(count):
        _, at = _read_name(data, at)
        name, at = _read_name(data, at)
        kind = data[at]
        at += 1
        match kind:
            case 0:
                number, at = read_number(data, at)
                part.imports.append((name, number))
            case 1:
                at = _skip_limits(data, at + 1)
            case 2:
                at = _skip_limits(data, at)
            case 3:
                at += 2
            case _:
                _refuse(f"a kernel's object imports {name!r}, of kind {kind}")


def _skip_limits(data: bytes, at: int) -> int:
    """Return the place after the limits of a memory or table."""
    has_most = data[at] & 1
    _, at = read_number(data, at + 1)
    return read_number(data, at)[1] if has_most else at


def _read_data(part: _Object, data: bytes) -> None:
    """Read the data segments of an object."""
    part.data = data
    count, at = read_number(data, 0)
    for _ in range(count):
        mode, at = read_number(data, at)
        if mode != 0 or data[at] != I32_CONST:
            _refuse("a kernel's object has data without an address")
        _, at = read_number(data, at + 1)  # its address in the object
        size, at = read_number(data, at + 1)  # past the end of the address
        part.segments.append((at, size))
        at += size


def _read_linking(part: _Object, data: bytes, at: int) -> None:
    """Read the symbols of an object, and the alignment of its segments."""
    version, at = read_number(data, at)
    if version != VERSION:
        _refuse(f"a kernel's object has version {version} of the linking format, not {VERSION}")
    while at < len(data):
        kind = data[at]
        size, at = read_number(data, at + 1)
        end = at + size
        if kind == SYMBOLS:
            count, at = read_number(data, at)
            for _ in range(count):
                symbol, at = _read_symbol(part, data, at)
                part.symbols.append(symbol)
        elif kind == SEGMENT_INFO:
            count, at = read_number(data, at)
            for _ in range(count):
                _, at = _read_name(data, at)
                power, at = read_number(data, at)
                _, at = read_number(data, at)
                part.alignments.append(1 << power)
        at = end


def _read_symbol(part: _Object, data: bytes, at: int) -> tuple[_Symbol, int]:
    """Return a symbol and the place after it."""
    kind = data[at]
    flags, at = read_number(data, at + 1)
    name, index, offset = "", 0, 0
    match kind:
        case 0 | 2 | 4 | 5:
            index, at = read_number(data, at)
            if not flags & UNDEFINED or flags & EXPLICIT_NAME:
                name, at = _read_name(data, at)
            elif kind == SYMBOL_FUNCTION:
                name = part.imports[index][0]
            elif kind == SYMBOL_GLOBAL:
                name = STACK  # the only global of a kernel
        case 1:
            name, at = _read_name(data, at)
            if not flags & UNDEFINED:
                index, at = read_number(data, at)
                offset, at = read_number(data, at)
                _, at = read_number(data, at)  # its size
        case 3:
            index, at = read_number(data, at)
        case _:
            _refuse(f"a kernel's object has a symbol of kind {kind}")
    return _Symbol(kind, flags, name, index, offset), at


def _read_relocations(part: _Object, data: bytes, at: int, kinds: list[int]) -> None:
    """Read the relocations of a section; those of debug information are dropped with it."""
    section, at = read_number(data, at)
    count, at = read_number(data, at)
    if kinds[section] == CUSTOM:
        return
    rows = part.relocations.setdefault(kinds[section], [])
    for _ in range(count):
        kind = data[at]
        offset, at = read_number(data, at + 1)
        index, at = read_number(data, at)
        addend = 0
        if kind in WITH_ADDEND:
            addend, at = _read_signed(data, at)
        rows.append(_Relocation(kind, offset, index, addend))


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed LEB128 number and the place after it."""
    begin = at
    value, at = read_number(data, at)
    bits = 7 * (at - begin)
    return value - (1 << bits) if data[at - 1] & 0x40 else value, at


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """Return a text and the place after it."""
    size, at = read_number(data, at)
    return data[at : at + size].decode(), at + size


def _number(value: int) -> bytes:
    """Return an unsigned LEB128 number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _signed(value: int) -> bytes:
    """Return a signed LEB128 number, of a value that is not negative."""
    out = _number(value)
    return out if not out[-1] & 0x40 else out[:-1] + bytes([out[-1] | 0x80, 0])


def _padded(value: int) -> bytes:
    """Return an address or index below 2**31 in five bytes, signed or not."""
    return bytes([*(value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)), value >> 28 & 0x7F])


def _name(text: str) -> bytes:
    """Return a text with its length."""
    data = text.encode()
    return _number(len(data)) + data


def _vector(entries: Sequence[bytes]) -> bytes:
    """Return entries with their number."""
    return _number(len(entries)) + b"".join(entries)


MEMORY = _name("env") + _name("memory") + bytes([MEMORY_KIND])


def _refuse(why: str) -> NoReturn:
    """Raise KernelCompileError."""
    raise KernelCompileError(
        f"{why}: it cannot be linked to a module",
        where="wasm",
        try_="report it: it is a fault of ours",
    )
