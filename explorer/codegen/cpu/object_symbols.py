"""The undefined symbols of an object file: ELF, Mach-O, or WebAssembly."""

from __future__ import annotations

import struct

ELF, MACH, WASM = b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\0asm"
SYMBOL_TABLE = 2  # ELF's SHT_SYMTAB, and Mach-O's LC_SYMTAB
ELF_SECTION = struct.Struct("<IIQQQQIIQQ")
ELF_SYMBOL = struct.Struct("<IBBHQQ")
MACH_SYMBOL = struct.Struct("<IBBHQ")
MACH_TYPE = 0x0E  # N_TYPE: 0 of an undefined symbol
MACH_HEADER_BYTES = 32


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that an object file of 64 bits or of WebAssembly refers to, sorted.

    Raises ValueError for another format.
    """
    if code.startswith(ELF):
        names = _elf(code)
    elif code.startswith(MACH):
        names = _mach(code)
    elif code.startswith(WASM):
        from explorer.codegen.wasm import undefined_functions

        return undefined_functions(code)
    else:
        raise ValueError(f"an object file that begins with {code[:4]!r}")
    return tuple(sorted(set(names) - {""}))


def _elf(code: bytes) -> list[str]:
    """Return the undefined names of an ELF file, little endian."""
    (table,) = struct.unpack_from("<Q", code, 0x28)
    count = struct.unpack_from("<HHH", code, 0x3A)[1]
    sections = [ELF_SECTION.unpack_from(code, table + n * ELF_SECTION.size) for n in range(count)]
    names = []
    for section in sections:
        if section[1] != SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], ELF_SYMBOL.size):
            name, _, _, defined_in, _, _ = ELF_SYMBOL.unpack_from(code, at)
            if not defined_in:
                names.append(_text(code, strings + name))
    return names


def _mach(code: bytes) -> list[str]:
    """Return the undefined names of a Mach-O file, without C's leading underscore."""
    (commands,) = struct.unpack_from("<I", code, 16)
    at, names = MACH_HEADER_BYTES, []
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, at)
        if command == SYMBOL_TABLE:
            symbols, count, strings = struct.unpack_from("<III", code, at + 8)
            for n in range(count):
                symbol = MACH_SYMBOL.unpack_from(code, symbols + n * MACH_SYMBOL.size)
                if not symbol[1] & MACH_TYPE:
                    names.append(_text(code, strings + symbol[0]).removeprefix("_"))
        at += size
    return names


def _text(code: bytes, at: int) -> str:
    """Return the text that ends with a zero byte."""
    return code[at : code.index(b"\0", at)].decode()
