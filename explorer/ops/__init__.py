"""Operators: one record each, their semantics (`evaluate`) and program checks (`verify`)."""

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

# The modules of the operators, in the order in which a name is looked up: the operators of image
# models come first, so that other modules are not loaded for them.
OPERATOR_MODULES = (
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
    """Every operator by name; modules are loaded in order until one has the name."""

    def __init__(self) -> None:
        """Start with no module loaded."""
        self._loaded: dict[str, OperatorRecord] = {}
        self._pending = list(reversed(OPERATOR_MODULES))
        self._lock = ForkLock()

    def __getitem__(self, name: str) -> OperatorRecord:
        if name not in self._loaded:
            self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        self._load(None)
        return iter(self._loaded)

    def __len__(self) -> int:
        self._load(None)
        return len(self._loaded)

    def _load(self, name: str | None) -> None:
        """Load modules until one has the name, or all of them for None."""
        with self._lock:
            while self._pending and name not in self._loaded:
                loaded = import_module(f"{__name__}.{self._pending[-1]}")
                self._loaded.update({r.name: r for r in loaded.RECORDS})
                self._pending.pop()

    def put(self, record: OperatorRecord) -> None:
        """Register a record under its name."""
        self._loaded[record.name] = record

    def take(self, name: str) -> None:
        """Remove the record of that name."""
        del self._loaded[name]


_records = _Records()
RECORDS: Mapping[str, OperatorRecord] = _records  # ops.user_operators adds to it
put_record, take_record = _records.put, _records.take


def family(thing: Binding | Kernel) -> str:
    """Return the family of a binding or a kernel, one of `FAMILIES`."""
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
