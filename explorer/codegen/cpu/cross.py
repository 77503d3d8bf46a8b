"""Object files of kernels for another machine, which a linker takes; cached like those that run.

The LLVM IR of a kernel is that of this machine's kernels, for another platform. Functions that
Numba compiles for this process are those of `cross_functions`.
"""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, replace
from typing import Any

from explorer.cache import content_key, get, put
from explorer.codegen.cpu.jit import linkable, machine_parts, object_of, optimised
from explorer.codegen.cpu.object_code import (
    OTHER_CODE,
    compile_problem,
    generator_text,
    key_of,
    line_listings,
)
from explorer.codegen.cpu.object_symbols import undefined_symbols
from explorer.devices.isa import InstructionSet
from explorer.devices.listing import Listing, Listings
from explorer.errors import KernelCompileError

FORMAT = "cross-object-2"
FUNCTION = "kernel"
CROSS_SOURCE = "from explorer.codegen.cpu.cross_functions import *\nFUNCTIONS\n"
EXACT = (
    "This is the code that a linker takes: a copy with line marks was compiled to the same bytes. "
    "What LLVM merged from several lines has none."
)


@dataclass(frozen=True, slots=True)
class CrossObject:
    """A kernel's object file `code`, which defines `symbol`; `llvm` is its IR after optimisation.

    `undefined`: functions that the linker must find. `seconds`: time to compile, 0 from the cache.
    """

    symbol: str
    code: bytes
    llvm: str
    undefined: tuple[str, ...]
    seconds: float


def cross_compile(source: str, isa: InstructionSet) -> CrossObject:
    """Return the object file of a printed kernel for a platform, from the cache or LLVM.

    Its function is `void kernel_<key>(int64 first, int64 last, int64 address of the arguments)`.
    Without a triple the platform is that of this process.

    Raises:
        KernelCompileError: The kernel needs Numba's own front end, or LLVM fails.
    """
    key = key_of(source, isa)
    entry = content_key(FORMAT, key, generator_text(CROSS_SOURCE))
    stored = get(entry)
    if stored is not None:
        return _unpacked(stored)
    begin = time.perf_counter()
    compiled = _compile(key, source, isa)
    put(entry, _packed(compiled), "kernel")
    return replace(compiled, seconds=time.perf_counter() - begin)


def cross_ir(source: str, isa: InstructionSet, symbol: str, marked: bool = False) -> str:
    """Return the LLVM IR of a kernel before optimisation, as a platform takes it.

    `marked`: with the source line of each instruction.
    """
    from explorer.codegen.cpu.cross_functions import FUNCTIONS  # they load Numba
    from explorer.codegen.cpu.llvm_value import compiling_for
    from explorer.codegen.cpu.translate import translate

    with compiling_for(isa):
        return translate(source, FUNCTION, symbol, marked=marked, functions=FUNCTIONS)


def cross_optimised(source: str, isa: InstructionSet, symbol: str, marked: bool = False) -> Any:
    """Return the module of a kernel for a platform after LLVM's pipeline."""
    return optimised(cross_ir(source, isa, symbol, marked), isa, machine=linkable(isa))


def cross_listings(source: str, isa: InstructionSet) -> Listings:
    """Return LLVM IR and assembly of a kernel for a platform, with source lines.

    Raises:
        KernelCompileError: As `cross_compile`.
    """
    code = cross_compile(source, isa)
    marked = cross_ir(source, isa, code.symbol, marked=True)
    listings = Listings(*line_listings(marked, isa), EXACT)
    marked_object = object_of(optimised(marked, isa), isa)
    if machine_parts(marked_object) == machine_parts(code.code):
        return listings
    llvm, assembly = line_listings(cross_ir(source, isa, code.symbol), isa)
    return Listings(Listing(llvm.text), Listing(assembly.text), OTHER_CODE)


def _compile(key: str, source: str, isa: InstructionSet) -> CrossObject:
    """Compile a kernel for a platform."""
    from explorer.codegen.cpu.translate_values import NotTranslated

    symbol = f"{FUNCTION}_{key}"
    try:
        module = cross_optimised(source, isa, symbol)
    except NotTranslated as problem:
        raise KernelCompileError(
            f"kernel {key[:8]} is compiled for this process alone: Numba's own front end is needed "
            f"for {problem}",
            where=isa.triple,
        ) from problem
    except KernelCompileError:
        raise
    except Exception as problem:
        cause = compile_problem(problem)
        raise KernelCompileError(f"kernel {key[:8]} does not compile: {cause}") from problem
    llvm = str(module)
    code = bytes(linkable(isa).emit_object(module))
    return CrossObject(symbol, code, llvm, undefined_symbols(code), 0.0)


def _packed(code: CrossObject) -> bytes:
    """Return an object as bytes: the length of a head, the head, the object file."""
    head = json.dumps([code.symbol, code.llvm, code.undefined]).encode()
    return struct.pack("<I", len(head)) + head + code.code


def _unpacked(data: bytes) -> CrossObject:
    """Read the bytes of `_packed`."""
    (length,) = struct.unpack_from("<I", data)
    symbol, llvm, undefined = json.loads(data[4 : 4 + length])
    return CrossObject(symbol, data[4 + length :], llvm, tuple(undefined), 0.0)
