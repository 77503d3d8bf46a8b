"""Relax's symbols and their uses: annotations, loops and buffers of every function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from explorer.ir.annotations import defined_by, symbols_in
from explorer.ir.calls import KernelCall, MatchCast, Var
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.lattice import dims_of
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import evaluate_dim, symbols_of
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, ShapeType, Tensor, TupleType
from widgets.draw.symbol_marks import symbols_in_text, symbols_of_dims
from widgets.model.compiled import Compiled
from widgets.relax.shape_words import annotation_text, bounds_text, extents, loops_text

SHAPE_STATUSES = ("proved", "checked at run time", "rank only", "nothing")


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A symbol: its definition, and the number of dims, loops and buffers that use it.

    `now` is its value at the knob. `assumed`: the run computes it, and `now` is the value tuned
    for.
    """

    name: str
    bounds: str
    defined: str
    now: int
    assumed: bool
    dims: int = 0
    loops: int = 0
    buffers: int = 0


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A value with its display `label`.

    `status` is one of SHAPE_STATUSES; `bytes` is its size under the current symbol values.
    """

    name: str
    annotation: str
    status: str
    now: str
    bytes: int
    ops: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class UseRow:
    """A kernel call with its loops, or a buffer with the formula of its bytes, and its `label`."""

    name: str
    text: str
    symbols: tuple[str, ...]
    ops: tuple[str, ...]
    bytes: int = 0
    label: str = ""


LabelOf = Callable[[tuple[str, ...]], str]


def no_label(ops: tuple[str, ...]) -> str:
    """Return "": every value is shown under its name in the program."""
    return ""


@dataclass(frozen=True, slots=True)
class ShapeRows:
    """All rows in program order; only those loops and buffers that use a symbol."""

    symbols: tuple[SymbolRow, ...]
    values: tuple[ValueRow, ...]
    loops: tuple[UseRow, ...]
    buffers: tuple[UseRow, ...]
    lowered: bool


def data(
    c: Compiled,
    sizes: Mapping[str, int],
    plan: MemoryPlan | None = None,
    label_of: LabelOf = no_label,
) -> ShapeRows:
    """Return the values after shape inference, the final program's loops, and the plan's buffers.

    `label_of` returns the label of what some source operators compute, "" where there is none.
    """
    program, last = inferred_program(c), c.program
    values = _values(program)
    defined = _definitions(program)
    names = dict.fromkeys(chain(defined, *(symbols_in(v.type) for _, v, _ in values)))
    symbol_values = {n: sizes.get(n, program.env.of(n).hint) for n in names}
    loops = tuple(_loops(last, last.stage >= Stage.LEGALIZED))
    buffers = tuple(_buffers(plan, symbol_values)) if plan is not None else ()
    symbols = (
        SymbolRow(
            name,
            bounds_text(program.env.of(name)),
            defined.get(name, "given by a caller"),
            value,
            name not in sizes,
            sum(_dims_with(v.type, name) for _, v, _ in values),
            sum(name in row.symbols for row in loops),
            sum(name in row.symbols for row in buffers),
        )
        for name, value in symbol_values.items()
    )
    return ShapeRows(
        tuple(symbols),
        tuple(_labelled(_value(where, v, b, symbol_values), label_of) for where, v, b in values),
        tuple(_labelled(row, label_of) for row in loops),
        tuple(_labelled(row, label_of) for row in buffers),
        last.stage >= Stage.LEGALIZED,
    )


Row = TypeVar("Row", ValueRow, UseRow)


def _labelled(row: Row, label_of: LabelOf) -> Row:
    return replace(row, label=label_of(row.ops) or row.name)


def inferred_program(c: Compiled) -> Program:
    """Return the program after shape inference."""
    done = [s.after for s in c.snapshots if s.after.stage == Stage.TYPED]
    return done[-1] if done else c.program


Value = tuple[str, Var, Binding | None]  # prefix of a non-main function, the value, its binding


def _values(program: Program) -> list[Value]:
    values: list[Value] = []
    for function in program.functions:
        where = "" if function is program.main else f"{function.name}."
        values += [(where, p, None) for p in function.params]
        values += [(where, v, b) for b in function.body for v in b.vars]
    return values


def _definitions(program: Program) -> dict[str, str]:
    """Return for each symbol the first place that defines it."""
    definitions: dict[str, str] = {}
    for where, var, binding in _values(program):
        if binding is not None and not isinstance(binding.expr, MatchCast):
            continue
        for name in defined_by(var.type):
            what = "match_cast" if binding is not None else "parameter"
            axis = _axis(var.type, name)
            definitions.setdefault(name, f"{what} {where}{var.name}{axis}")
    return definitions


def _axis(annotation: Annotation, name: str) -> str:
    axes = [i for i, d in enumerate(dims_of(annotation) or ()) if str(d) == name]
    return f", dim {axes[0]}" if axes else ""


def _dims_with(annotation: Annotation, name: str) -> int:
    if isinstance(annotation, TupleType):
        return sum(_dims_with(item, name) for item in annotation.items)
    return sum(name in symbols_of(d) for d in dims_of(annotation) or ())


def _value(
    where: str, var: Var, binding: Binding | None, symbol_values: Mapping[str, int]
) -> ValueRow:
    ops = tuple(sorted(binding.origin)) if binding is not None else ()
    cast = binding is not None and isinstance(binding.expr, MatchCast)
    shape, size = dims_of(var.type), 0
    if isinstance(var.type, Tensor) and var.type.is_known and var.type.dtype != "string":
        size = evaluate_dim(var.type.bytes, symbol_values)
    return ValueRow(
        where + var.name,
        annotation_text(var.type),
        _shape_status(var.type, cast),
        ""
        if shape is None
        else "×".join(str(evaluate_dim(d, symbol_values)) for d in shape) or "scalar",
        size,
        ops,
        tuple(sorted(symbols_in(var.type))),
    )


def _shape_status(annotation: Annotation, cast: bool) -> str:
    match annotation:
        case Tensor() | ShapeType():
            if dims_of(annotation) is not None:
                return "checked at run time" if cast else "proved"
            return "nothing" if annotation.rank is None else "rank only"
        case TupleType(items):
            return max(
                (_shape_status(i, cast) for i in items), key=SHAPE_STATUSES.index, default="proved"
            )
    return "nothing"


def _loops(program: Program, lowered: bool) -> Iterator[UseRow]:
    """Yield the kernel calls whose extents use a symbol."""
    for function, binding in program.bindings() if lowered else ():
        if not isinstance(binding.expr, KernelCall):
            continue
        where = "" if function is program.main else f"{function.name}."
        symbols = symbols_of_dims(extents(binding.expr.kernel).values())
        if symbols:
            ops = tuple(sorted(binding.origin))
            yield UseRow(where + binding.name, loops_text(binding.expr.kernel), symbols, ops)


def _buffers(plan: MemoryPlan, symbol_names: Collection[str]) -> Iterator[UseRow]:
    for b in plan.buffers:
        symbols = symbols_in_text(b.formula, symbol_names)
        if symbols and not b.alias_of:
            yield UseRow(b.name, b.formula, symbols, tuple(sorted(b.origin)), b.bytes)
