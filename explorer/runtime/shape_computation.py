"""Computations on shapes, hoisted out of runs: done once for a binding.

s: int64[2] = shape_of(n, m); v = library shape.Add(s, ..); k: shape[step] = match v; y = kernel(x)
->  before a binding: step = 1;  in its runs: y = kernel(x)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.annotations import defined_by, symbols_in
from explorer.ir.calls import KernelCall, LibraryCall, MatchCast, ShapeOf, Var, View
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Sizes, symbol
from explorer.ir.symbols import NONE, needed_by
from explorer.ir.symbols import defined_by as defined_by_cast
from explorer.ir.types import ShapeType, Tensor
from explorer.ops.reference.evaluate import Interpreter
from explorer.runtime.regions import is_dynamic

MOST_ELEMENTS = 64  # of a kernel's result computed from shapes, by NumPy; chosen


@dataclass(frozen=True, slots=True)
class ShapeComputation:
    """A program that computes `symbols` in one row, and `arrays`, which are inputs of runs."""

    program: Program
    symbols: tuple[str, ...]
    arrays: tuple[str, ...]

    def of(self, sizes: Sizes) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """Return all symbols and the arrays, for a binding of the symbols of the inputs' shapes.

        Raises what the host raises in a run.
        """
        inputs = {name: size for name, size in sizes.items() if name not in self.symbols}
        row, *arrays = Interpreter(self.program, inputs).run(self.program.main, ())
        numbers = dict(zip(self.symbols, map(int, row), strict=True))
        return {**inputs, **numbers}, dict(zip(self.arrays, arrays, strict=True))


def split_shape_computation(program: Program) -> tuple[Program, ShapeComputation | None]:
    """Return a program without its computations on shapes, and these as a program.

    Return the program unchanged, and None, if it needs no host, or needs one for other reasons too.
    """
    if not is_dynamic(program):
        return program, None
    split = _Split(program)
    for binding in program.main.body:
        split.binding(binding)
    program_of_runs, shapes = split.split()
    return (program, None) if is_dynamic(program_of_runs) else (program_of_runs, shapes)


class _Split:
    """Partition of bindings: `first` are those that shapes decide, `others` the remainder."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.input_symbols = NONE.union(*(defined_by(p.type) for p in program.main.params))
        self.known_symbols = set(self.input_symbols)
        self.shape_values: dict[str, Var] = {}  # values computed from shapes, by name
        self.first: list[Binding] = []
        self.others: list[Binding] = []

    def binding(self, b: Binding) -> None:
        """Assign the next binding of the program."""
        new, needed = (
            defined_by_cast(b) - self.known_symbols,
            map(symbols_in, (v.type for v in b.reads)),
        )
        if self.depends_on_shapes(b):
            self.first.append(b)
            self.shape_values |= {v.name: v for v in b.vars}
            self.known_symbols |= new
        elif isinstance(b.expr, MatchCast) and new and NONE.union(*needed) <= self.known_symbols:
            self.others.append(self.cast(b, b.expr.arg))
        else:
            self.others.append(b)

    def depends_on_shapes(self, b: Binding) -> bool:
        """Return True if shapes decide a binding."""
        if not needed_by(b) <= self.known_symbols:
            return False
        names = {v.name for v in b.reads} - self.program.constants.keys()
        match b.expr:
            case ShapeOf():
                return True
            case MatchCast() | LibraryCall("shape"):
                return names <= self.shape_values.keys()
            case KernelCall() | View() | LibraryCall():
                return (
                    bool(names)
                    and names <= self.shape_values.keys()
                    and all(map(_is_small, b.vars))
                )
        return False

    def cast(self, b: Binding, tensor: Var) -> Binding:
        """Return a match_cast of a tensor as a view; its extents are computed before runs."""
        if not _are_tensors(b.var, tensor):
            return b
        shape = Var(f"{b.var.name}.extents", Tensor((len(tensor.tensor.dims),), "int64"))
        self.first.append(Binding((shape,), ShapeOf(tensor.tensor.dims), b.origin))
        extents = Var(b.var.name, ShapeType(b.var.tensor.dims))
        self.first.append(Binding((extents,), MatchCast(shape), b.origin))
        self.known_symbols |= defined_by_cast(b)
        return replace(b, expr=View(tensor))

    def split(self) -> tuple[Program, ShapeComputation]:
        program, main = self.program, self.program.main
        read = {v.name for v in (*main.outputs, *(v for b in self.others for v in b.reads))}
        arrays = tuple(v for n, v in self.shape_values.items() if n in read)
        symbols = tuple(sorted(self.known_symbols - self.input_symbols))
        row = Var("symbols", Tensor((len(symbols),), "int64"))
        last = Binding((row,), ShapeOf(tuple(map(symbol, symbols))))
        first = Function(f"{main.name}.shapes", (), (*self.first, last), (row, *arrays))
        shapes = ShapeComputation(
            replace(program, functions=(first,)), symbols, tuple(v.name for v in arrays)
        )
        main_of_runs = replace(main, params=(*main.params, *arrays), body=tuple(self.others))
        return replace(program, functions=(main_of_runs, *program.functions[1:])), shapes


def _is_small(var: Var) -> bool:
    return _are_tensors(var) and isinstance(n := var.tensor.elements, int) and n <= MOST_ELEMENTS


def _are_tensors(*vars: Var) -> bool:
    return all(isinstance(v.type, Tensor) and v.type.is_known for v in vars)
