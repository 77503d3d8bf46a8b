"""What the shapes of a run's inputs decide: found once for a binding, so that its runs follow
nothing.

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

MOST_ELEMENTS = 64  # of what a kernel computes of shapes, which NumPy does here; chosen


@dataclass(frozen=True, slots=True)
class Told:
    """A program that gives the values of `symbols` in one row, then `arrays`, which are inputs of
    the runs.
    """

    program: Program
    symbols: tuple[str, ...]
    arrays: tuple[str, ...]

    def of(self, sizes: Sizes) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """All symbols under the binding of those that the inputs' shapes say, and the arrays.

        Raises what the host raises of a run.
        """
        given = {name: size for name, size in sizes.items() if name not in self.symbols}
        row, *arrays = Interpreter(self.program, given).run(self.program.main, ())
        numbers = dict(zip(self.symbols, map(int, row), strict=True))
        return {**given, **numbers}, dict(zip(self.arrays, arrays, strict=True))


def told_by_shapes(program: Program) -> tuple[Program, Told | None]:
    """A program without what the shapes of its inputs decide, and that; the program as it is where
    it needs no host, or needs one for other reasons too.
    """
    if not is_dynamic(program):
        return program, None
    split = _Split(program)
    for binding in program.main.body:
        split.binding(binding)
    rest, told = split.done()
    return (program, None) if is_dynamic(rest) else (rest, told)


class _Split:
    """`first` are the bindings that shapes decide, `rest` all others."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.given = NONE.union(*(defined_by(p.type) for p in program.main.params))
        self.known = set(self.given)  # symbols
        self.told: dict[str, Var] = {}  # values that shapes decide, by name
        self.first: list[Binding] = []
        self.rest: list[Binding] = []

    def binding(self, b: Binding) -> None:
        """The next binding of the program."""
        new, needed = defined_by_cast(b) - self.known, map(symbols_in, (v.type for v in b.reads))
        if self.is_told(b):
            self.first.append(b)
            self.told |= {v.name: v for v in b.vars}
            self.known |= new
        elif isinstance(b.expr, MatchCast) and new and NONE.union(*needed) <= self.known:
            self.rest.append(self.cast(b, b.expr.arg))
        else:
            self.rest.append(b)

    def is_told(self, b: Binding) -> bool:
        """Whether shapes decide a binding."""
        if not needed_by(b) <= self.known:
            return False
        names = {v.name for v in b.reads} - self.program.constants.keys()
        match b.expr:
            case ShapeOf():
                return True
            case MatchCast() | LibraryCall("shape"):
                return names <= self.told.keys()
            case KernelCall() | View() | LibraryCall():
                return bool(names) and names <= self.told.keys() and all(map(_is_small, b.vars))
        return False

    def cast(self, b: Binding, found: Var) -> Binding:
        """A match_cast that names the extents of a tensor: they have values before the runs."""
        if not _are_tensors(b.var, found):
            return b
        shape = Var(f"{b.var.name}.told", Tensor((len(found.tensor.dims),), "int64"))
        self.first.append(Binding((shape,), ShapeOf(found.tensor.dims), b.origin))
        wanted = Var(b.var.name, ShapeType(b.var.tensor.dims))
        self.first.append(Binding((wanted,), MatchCast(shape), b.origin))
        self.known |= defined_by_cast(b)
        return replace(b, expr=View(found))

    def done(self) -> tuple[Program, Told]:
        program, main = self.program, self.program.main
        read = {v.name for v in (*main.outputs, *(v for b in self.rest for v in b.reads))}
        arrays = tuple(v for n, v in self.told.items() if n in read)
        symbols = tuple(sorted(self.known - self.given))
        row = Var("symbols", Tensor((len(symbols),), "int64"))
        last = Binding((row,), ShapeOf(tuple(map(symbol, symbols))))
        first = Function(f"{main.name}.told", (), (*self.first, last), (row, *arrays))
        told = Told(replace(program, functions=(first,)), symbols, tuple(v.name for v in arrays))
        rest = replace(main, params=(*main.params, *arrays), body=tuple(self.rest))
        return replace(program, functions=(rest, *program.functions[1:])), told


def _is_small(var: Var) -> bool:
    return _are_tensors(var) and isinstance(n := var.tensor.elements, int) and n <= MOST_ELEMENTS


def _are_tensors(*vars: Var) -> bool:
    return all(isinstance(v.type, Tensor) and v.type.is_known for v in vars)
