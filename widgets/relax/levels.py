"""Relax's three levels in one module: graph calls, and the loops, libraries and functions used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.compilation.operators import Operator, head
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
from explorer.ir.kernels.canonical import canonical
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from widgets.draw.symbol_marks import symbols_of_dims
from widgets.model.compiled import Compiled
from widgets.relax.shape_words import extents, loops_text

LEVELS = ("operator", "kernel", "library", "host", "view or shape")


@dataclass(frozen=True, slots=True)
class CallRow:
    """A binding, in program order; `entries` are positions of its callees.

    If nothing is called, `note` says what is done.
    """

    name: str
    operator: str
    function: str
    level: str
    entries: tuple[int, ...]
    note: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A callee: its level, its loops or other description, and the number of calls to it."""

    name: str
    level: str
    text: str
    calls: int
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelRows:
    """The module; `levels` counts the calls of each level, in the order of LEVELS."""

    calls: tuple[CallRow, ...]
    entries: tuple[EntryRow, ...]
    levels: tuple[tuple[str, int], ...]
    main: str


def data(c: Compiled, operators: Sequence[Operator]) -> LevelRows:
    """Return the module as Relax leaves it, or as far as it was lowered."""
    return of_program(lowered_program(c), operators)


def lowered_program(c: Compiled) -> Program:
    """Return the last program of stage LEGALIZED, or the last one before it."""
    before = [s.after for s in c.snapshots if s.after.stage <= Stage.LEGALIZED]
    return before[-1] if before else c.program


def of_program(program: Program, operators: Sequence[Operator]) -> LevelRows:
    """Return every binding of a program with its callees; equal kernels are one entry."""
    operators_by_name = {o.name: o for o in operators}
    functions = {f.name: f for f in program.functions}
    places: dict[Hashable, int] = {}
    entries: list[EntryRow] = []
    calls = []
    for function, binding in program.bindings():
        callees = []
        for key, entry in _entries(binding, functions):
            at = places.setdefault(key, len(entries))
            if at == len(entries):
                entries.append(entry)
            entries[at] = replace(entries[at], calls=entries[at].calls + 1)
            callees.append(at)
        calls.append(_call(function, binding, tuple(callees), operators_by_name))
    counts = Counter(call.level for call in calls)
    levels = tuple((level, counts[level]) for level in LEVELS if counts[level])
    return LevelRows(tuple(calls), tuple(entries), levels, program.main.name)


def _call(
    function: Function,
    binding: Binding,
    entries: tuple[int, ...],
    operators_by_name: Mapping[str, Operator],
) -> CallRow:
    ops = tuple(sorted(binding.origin))
    first = head(operators_by_name[o] for o in ops if o in operators_by_name)
    operator_label = "" if first is None else first.label
    return CallRow(
        ", ".join(v.name for v in binding.vars),
        f"{operator_label} and {len(ops) - 1} more"
        if operator_label and len(ops) > 1
        else operator_label,
        function.name,
        _level(binding),
        entries,
        _note(binding),
        ops,
    )


def _level(binding: Binding) -> str:
    match binding.expr:
        case OpCall():
            return "operator"
        case KernelCall():
            return "kernel"
        case LibraryCall(library, _, _, _):
            return "host" if library == "shape" else "library"
        case View() | MatchCast() | ShapeOf():
            return "view or shape"
        case Branch() | Loop() | FunctionCall() | Gradient():
            return "host"


def _note(binding: Binding) -> str:
    match binding.expr:
        case OpCall(op, _, _):
            return f"{op}, not lowered yet"
        case View(arg, _):
            return f"the bytes of {arg.name}"
        case MatchCast(arg):
            return f"checks {arg.name}, finds symbols"
        case ShapeOf(dims, _):
            return f"the dims {', '.join(map(str, dims)) or 'of a scalar'}"
    return ""


def _entries(
    binding: Binding, functions: Mapping[str, Function]
) -> list[tuple[Hashable, EntryRow]]:
    match binding.expr:
        case KernelCall(kernel, _, _):
            symbols = symbols_of_dims(extents(kernel).values())
            return [
                (
                    canonical(kernel)[0],
                    EntryRow(kernel.name, "kernel", loops_text(kernel), 0, symbols),
                )
            ]
        case LibraryCall(library, name, _, _):
            where = (
                "arithmetic on shapes, by Python" if library == "shape" else "run by the library"
            )
            entry = EntryRow(f"{library}.{name}", _level(binding), where, 0)
            return [((library, name), entry)]
        case Branch(_, then, orelse, _):
            return [_function(functions[then]), _function(functions[orelse])]
        case Loop(body, _, _, _, _, _) | FunctionCall(body, _) | Gradient(body):
            return [_function(functions[body])]
    return []


def _function(function: Function) -> tuple[Hashable, EntryRow]:
    count = len(function.body)
    text = f"a function of {count} binding{'' if count == 1 else 's'}"
    return ("function", function.name), EntryRow(function.name, "host", text, 0)
