"""Machine code in memory, loaded and unloaded in engines of several functions.

An engine of LLVM frees its memory as a whole, and takes two milliseconds to create. So one engine
holds some tens of functions, and is freed when all of them are unused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numba.core.registry import cpu_target

from explorer.errors import KernelCompileError

MOST_FUNCTIONS = 32  # of an engine; chosen


@dataclass(slots=True)
class JitEngine:
    """An engine with its functions: address by name, and the number of users of each."""

    mcjit: Any
    addresses: dict[str, int] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0  # of the object files


class JitMemory:
    """Every engine of this process; callers serialise access to it."""

    def __init__(self) -> None:
        """Create an empty memory."""
        self.engines: list[JitEngine] = []
        self.open_engine: JitEngine | None = None

    @property
    def functions(self) -> int:
        """The number of functions in memory, unused ones of used engines included."""
        return sum(len(s.addresses) for s in self.engines)

    @property
    def size_bytes(self) -> int:
        """The bytes of the object files of all engines."""
        return sum(s.size_bytes for s in self.engines)

    def load(self, code: bytes, symbol: str, shared: bool) -> tuple[int, JitEngine]:
        """Load a function of an object file; return its address and its engine.

        `shared`: the name identifies the content, so one copy serves all, and others may share its
        engine. Raises KernelCompileError if the file has no such function.
        """
        engine = next((s for s in self.engines if symbol in s.addresses), None) if shared else None
        if engine is None:
            if not shared:
                _numba_functions()
            engine = self._room() if shared else self._new()
            engine.mcjit.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.mcjit.finalize_object()
            address = engine.mcjit.get_function_address(symbol)
            if not address:
                raise KernelCompileError(
                    f"the cached object code has no function {symbol}: clear the cache"
                )
            engine.addresses[symbol] = int(address)
            engine.size_bytes += len(code)
        engine.uses[symbol] = engine.uses.get(symbol, 0) + 1
        return engine.addresses[symbol], engine

    def release(self, engine: JitEngine, symbol: str) -> None:
        """Release one use of a function; an entirely unused engine is freed."""
        engine.uses[symbol] -= 1
        if engine.uses[symbol] == 0:
            del engine.uses[symbol]
        if not engine.uses:
            self.engines.remove(engine)
            self.open_engine = None if engine is self.open_engine else self.open_engine
            engine.mcjit.close()

    def _room(self) -> JitEngine:
        """Return an engine with room for one more."""
        if self.open_engine is None or len(self.open_engine.addresses) >= MOST_FUNCTIONS:
            self.open_engine = self._new()
        return self.open_engine

    def _new(self) -> JitEngine:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _loader())
        self.engines.append(JitEngine(engine))
        return self.engines[-1]


@cache
def _numba_functions() -> None:
    """Register the addresses of the functions that a wrapper of Numba calls."""
    assert cpu_target.target_context is not None


def _loader() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()
