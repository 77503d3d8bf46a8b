"""Relax's symbols and what speaks of them: annotations, loops and buffers of every function."""

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
from widgets.draw.symbol_marks import named, symbols_of_dims
from widgets.model.compiled import Compiled
from widgets.relax.shape_words import annotation_text, bounds_text, extents, loops_text

KNOWN = ("proved", "checked at run time", "rank only", "nothing")


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A symbol: where it is defined, and how many dims, loops and buffers speak of it. `now` is the
    value at a knob; `assumed`: it is found by the run, and this is what was tuned for.
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
    """A value, and its `label`, what readers call it; `known` is one of KNOWN; `bytes` is under the
    present sizes.
    """

    name: str
    annotation: str
    known: str
    now: str
    bytes: int
    ops: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class UseRow:
    """A kernel call with its loops, or a buffer with the formula of its bytes; its `label` is what
    readers call it.
    """

    name: str
    text: str
    symbols: tuple[str, ...]
    ops: tuple[str, ...]
    bytes: int = 0
    label: str = ""


Called = Callable[[tuple[str, ...]], str]


def unnamed(ops: tuple[str, ...]) -> str:
    """Nothing is called otherwise than the program does."""
    return ""


@dataclass(frozen=True, slots=True)
class ShapeRows:
    """Everything in program order; of loops and buffers those that speak of a symbol."""

    symbols: tuple[SymbolRow, ...]
    values: tuple[ValueRow, ...]
    loops: tuple[UseRow, ...]
    buffers: tuple[UseRow, ...]
    lowered: bool


def data(
    c: Compiled,
    sizes: Mapping[str, int],
    plan: MemoryPlan | None = None,
    called: Called = unnamed,
) -> ShapeRows:
    """The values of the program after deduction, the loops of the last one, the plan's buffers.
    `called` is what readers call what comes from some source operators, "" where they do not.
    """
    program, last = typed(c), c.program
    values = _values(program)
    defined = _definitions(program)
    names = dict.fromkeys(chain(defined, *(symbols_in(v.type) for _, v, _ in values)))
    known = {n: sizes.get(n, program.env.of(n).hint) for n in names}
    loops = tuple(_loops(last, last.stage >= Stage.LEGALIZED))
    buffers = tuple(_buffers(plan, known)) if plan is not None else ()
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
        for name, value in known.items()
    )
    return ShapeRows(
        tuple(symbols),
        tuple(_labelled(_value(where, v, b, known), called) for where, v, b in values),
        tuple(_labelled(row, called) for row in loops),
        tuple(_labelled(row, called) for row in buffers),
        last.stage >= Stage.LEGALIZED,
    )


Row = TypeVar("Row", ValueRow, UseRow)


def _labelled(row: Row, called: Called) -> Row:
    return replace(row, label=called(row.ops) or row.name)


def typed(c: Compiled) -> Program:
    """The program after deduction."""
    done = [s.after for s in c.snapshots if s.after.stage == Stage.TYPED]
    return done[-1] if done else c.program


Value = tuple[str, Var, Binding | None]  # the function where it is not the main one, and the maker


def _values(program: Program) -> list[Value]:
    found: list[Value] = []
    for function in program.functions:
        where = "" if function is program.main else f"{function.name}."
        found += [(where, p, None) for p in function.params]
        found += [(where, v, b) for b in function.body for v in b.vars]
    return found


def _definitions(program: Program) -> dict[str, str]:
    """For each symbol the first place that gives it a value."""
    found: dict[str, str] = {}
    for where, var, binding in _values(program):
        if binding is not None and not isinstance(binding.expr, MatchCast):
            continue
        for name in defined_by(var.type):
            what = "match_cast" if binding is not None else "parameter"
            axis = _axis(var.type, name)
            found.setdefault(name, f"{what} {where}{var.name}{axis}")
    return found


def _axis(annotation: Annotation, name: str) -> str:
    axes = [i for i, d in enumerate(dims_of(annotation) or ()) if str(d) == name]
    return f", dim {axes[0]}" if axes else ""


def _dims_with(annotation: Annotation, name: str) -> int:
    if isinstance(annotation, TupleType):
        return sum(_dims_with(item, name) for item in annotation.items)
    return sum(name in symbols_of(d) for d in dims_of(annotation) or ())


def _value(where: str, var: Var, binding: Binding | None, known: Mapping[str, int]) -> ValueRow:
    ops = tuple(sorted(binding.origin)) if binding is not None else ()
    cast = binding is not None and isinstance(binding.expr, MatchCast)
    shape, size = dims_of(var.type), 0
    if isinstance(var.type, Tensor) and var.type.is_known and var.type.dtype != "string":
        size = evaluate_dim(var.type.bytes, known)
    return ValueRow(
        where + var.name,
        annotation_text(var.type),
        _known(var.type, cast),
        "" if shape is None else "×".join(str(evaluate_dim(d, known)) for d in shape) or "scalar",
        size,
        ops,
        tuple(sorted(symbols_in(var.type))),
    )


def _known(annotation: Annotation, cast: bool) -> str:
    match annotation:
        case Tensor() | ShapeType():
            if dims_of(annotation) is not None:
                return "checked at run time" if cast else "proved"
            return "nothing" if annotation.rank is None else "rank only"
        case TupleType(items):
            return max((_known(i, cast) for i in items), key=KNOWN.index, default="proved")
    return "nothing"


def _loops(program: Program, lowered: bool) -> Iterator[UseRow]:
    """The kernel calls whose extents speak of a symbol."""
    for function, binding in program.bindings() if lowered else ():
        if not isinstance(binding.expr, KernelCall):
            continue
        where = "" if function is program.main else f"{function.name}."
        found = symbols_of_dims(extents(binding.expr.kernel).values())
        if found:
            ops = tuple(sorted(binding.origin))
            yield UseRow(where + binding.name, loops_text(binding.expr.kernel), found, ops)


def _buffers(plan: MemoryPlan, known: Collection[str]) -> Iterator[UseRow]:
    for b in plan.buffers:
        found = named(b.formula, known)
        if found and not b.alias_of:
            yield UseRow(b.name, b.formula, found, tuple(sorted(b.origin)), b.bytes)
