"""Machine code in memory, and out of it: functions lie on shelves, and a shelf of which nothing is
used any more is given back.

An engine of LLVM's gives its memory back as a whole, and takes two milliseconds to make: so one
holds some tens of functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numba.core.registry import cpu_target

from explorer.errors import KernelCompileError

MOST_FUNCTIONS = 32  # of a shelf; chosen


@dataclass(slots=True)
class Shelf:
    """An engine with the functions that lie in it: address by name, and how often each is used."""

    engine: Any
    addresses: dict[str, int] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0  # of the object files


class Shelves:
    """Every shelf of this process. Its user sees to it that one thread at a time is here."""

    def __init__(self) -> None:
        self.shelves: list[Shelf] = []
        self.open: Shelf | None = None

    @property
    def functions(self) -> int:
        """How many lie in memory, those that wait for others of their shelf included."""
        return sum(len(s.addresses) for s in self.shelves)

    @property
    def size_bytes(self) -> int:
        """Of the object files of all these."""
        return sum(s.size_bytes for s in self.shelves)

    def put(self, code: bytes, symbol: str, shared: bool) -> tuple[int, Shelf]:
        """The address of a function of an object file, and the shelf that it lies on. `shared`: its
        name says what it is, so one copy serves all, and others may lie beside it.

        Raises KernelCompileError where the file has no such function.
        """
        shelf = next((s for s in self.shelves if symbol in s.addresses), None) if shared else None
        if shelf is None:
            if not shared:
                _numba_functions()
            shelf = self._room() if shared else self._new()
            shelf.engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            shelf.engine.finalize_object()
            address = shelf.engine.get_function_address(symbol)
            if not address:
                raise KernelCompileError(
                    f"the cached object code has no function {symbol}: clear the cache"
                )
            shelf.addresses[symbol] = int(address)
            shelf.size_bytes += len(code)
        shelf.uses[symbol] = shelf.uses.get(symbol, 0) + 1
        return shelf.addresses[symbol], shelf

    def take(self, shelf: Shelf, symbol: str) -> None:
        """One use less of a function. Nothing runs it any more where it was the last."""
        shelf.uses[symbol] -= 1
        if shelf.uses[symbol] == 0:
            del shelf.uses[symbol]
        if not shelf.uses:
            self.shelves.remove(shelf)
            self.open = None if shelf is self.open else self.open
            shelf.engine.close()

    def _room(self) -> Shelf:
        """A shelf with room for one more."""
        if self.open is None or len(self.open.addresses) >= MOST_FUNCTIONS:
            self.open = self._new()
        return self.open

    def _new(self) -> Shelf:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _loader())
        self.shelves.append(Shelf(engine))
        return self.shelves[-1]


@cache
def _numba_functions() -> None:
    """Makes known where the functions lie that a wrapper of Numba's calls."""
    assert cpu_target.target_context is not None


def _loader() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()
