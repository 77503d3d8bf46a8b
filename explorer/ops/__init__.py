"""Operators: one record each, their semantics (`evaluate`) and program checks (`verify`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
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
from explorer.ir.dims import Dim
from explorer.ir.kernel import Apply, Compute, Kernel, Read, reads
from explorer.ir.program import Binding
from explorer.ops.record import OperatorRecord
from explorer.process.forking import ForkLock

__all__ = ["FAMILIES", "RECORDS", "OperatorRecord", "family", "put_record", "take_record"]

# The modules of the operators, in the order in which a name is looked up: the operators of image
# models come first, so that other modules are not loaded for them.
OPERATOR_MODULES = (
    "elementwise",
    "images.conv",
    "arithmetic",
    "images.pooling",
    "slicing",
    "softmax",
    "reshaping",
    "products",
    "reductions",
    "normalization",
    "layout",
    "padding",
    "gather",
    "casting",
    "quantization",
    "quantized_products",
    "low_bit_products",
    "table_products",
    "generate",
    "images.resize",
    "recurrent",
    "images.sampling",
    "images.grid_sample",
    "scatter",
    "selection",
    "images.unfolding",
    "fourier",
    "optimizers",
)

# By what kernels compute: the colours of every picture.
FAMILIES = (
    "conv",
    "matmul",
    "elementwise",
    "reduction",
    "layout",
    "control flow",
    "library call",
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


@by_identity
def kernel_family(kernel: Kernel) -> str:
    """Return the family of a kernel, one of `FAMILIES`."""
    families = {_family_of_compute(c) for c in kernel.computes}
    return next(f for f in (*FAMILIES[:2], "reduction", "elementwise", "layout") if f in families)


def _family_of_compute(c: Compute) -> str:
    """Return the family of a compute; a sum of products over sliding windows is a conv."""
    if c.combiner is not None:
        match c.expr:
            case Apply("mul", (Read() as a, Read() as b)) if c.combiner == "sum":
                if a.tensor != b.tensor:
                    return "conv" if _slides(a, c) or _slides(b, c) else "matmul"
        return "reduction"
    return "layout" if isinstance(c.expr, Read) or not list(reads(c.expr)) else "elementwise"


def _slides(read: Read, c: Compute) -> bool:
    """Return True if reduced axes slide inside of windows.

    They do in two dims, or in one dim where the windows overlap. One dim split in two, such as
    heads by width in attention, is no window.
    """
    extents = {a.name: a.extent for a in c.reduce}
    windows = [i for i in read.index if isinstance(i, Affine) and _is_window(i, extents)]
    return len(windows) > 1 or any(not _is_split(i, extents) for i in windows)


def _is_window(index: Affine, summed: Mapping[str, Dim]) -> bool:
    return any(n in summed for n in index.variables) and any(
        n not in summed for n in index.variables
    )


def _is_split(index: Affine, summed: Mapping[str, Dim]) -> bool:
    """Return True for `outer * extent + inner` with the inner axis reduced."""
    factors = dict(index.terms)
    inner = [n for n in factors if n in summed]
    outer = [n for n in factors if n not in summed]
    is_pair = len(inner) == 1 and len(outer) == 1 and index.const == 0
    return is_pair and factors[inner[0]] == 1 and factors[outer[0]] == summed[inner[0]]
