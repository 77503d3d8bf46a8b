"""Operators: one record each, what programs mean (`evaluate`) and must satisfy (`verify`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from explorer.forking import ForkLock
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    View,
)
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding
from explorer.ops.families import FAMILIES, kernel_family
from explorer.ops.record import OperatorRecord

__all__ = ["FAMILIES", "RECORDS", "OperatorRecord", "family", "put_record", "take_record"]

# The files of the operators, in the order in which a name is looked for: a model of images has what
# it needs from the first of them, and what is not needed is not loaded.
ROOMS = (
    "arithmetic.elementwise",
    "images.conv",
    "arithmetic.arithmetic",
    "images.pooling",
    "shapes.joining",
    "reductions.softmax",
    "shapes.reshaping",
    "products.matmul",
    "reductions.reduction",
    "reductions.normalization",
    "shapes.layout",
    "shapes.slicing",
    "indexing.gather",
    "arithmetic.casting",
    "arithmetic.bitwise",
    "quantized.quantization",
    "quantized.quantized_products",
    "shapes.generate",
    "images.resize",
    "recurrent.layers",
    "images.sampling",
    "images.grid_sample",
    "images.affine_grid",
    "indexing.scatter",
    "indexing.assignment",
    "indexing.selection",
    "arithmetic.trigonometry",
    "images.unfolding",
    "reductions.fourier",
    "training.optimizers",
)


class _Records(Mapping[str, OperatorRecord]):
    """Every operator by name; a room is loaded when a name is in none of those before it."""

    def __init__(self) -> None:
        self._known: dict[str, OperatorRecord] = {}
        self._rooms = list(reversed(ROOMS))
        self._lock = ForkLock()

    def __getitem__(self, name: str) -> OperatorRecord:
        if name not in self._known:
            self._load(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._load(None)
        return iter(self._known)

    def __len__(self) -> int:
        self._load(None)
        return len(self._known)

    def _load(self, wanted: str | None) -> None:
        """Rooms until one has the name; all of them for none."""
        with self._lock:
            while self._rooms and wanted not in self._known:
                room = import_module(f"{__name__}.{self._rooms[-1]}")
                self._known.update({r.name: r for r in room.RECORDS})
                self._rooms.pop()

    def put(self, record: OperatorRecord) -> None:
        """Make a record known under its name."""
        self._known[record.name] = record

    def take(self, name: str) -> None:
        """Make the record of that name unknown."""
        del self._known[name]


_records = _Records()
RECORDS: Mapping[str, OperatorRecord] = _records  # ops.own_operators adds to it
put_record, take_record = _records.put, _records.take


def family(thing: Binding | Kernel) -> str:
    """One of `FAMILIES`: what a binding or a kernel does."""
    if isinstance(thing, Kernel):
        return kernel_family(thing)
    match thing.expr:
        case OpCall(op, _, _):
            return RECORDS[op].family if op in RECORDS else "library call"
        case KernelCall(kernel, _, _):
            return kernel_family(kernel)
        case Branch() | Loop() | FunctionCall() | Gradient():
            return "control flow"
        case LibraryCall():
            return "library call"
        case View() | MatchCast() | ShapeOf():
            return "layout"
