"""Partition of a program at the points that only a run decides, into compiled regions.

y = exp(x); i = library NonZero(y); j: int64[2, k] = match i; z = kernel f(y, j)
->  y = call main.region1(x); i = library NonZero(y); j = match i; z = call main.region2(y, j)

A region is a straight run of bindings whose symbols all have values when it begins: kernels, views,
and the loops, branches and calls whose bodies are such runs themselves.

Computations on shapes are hoisted out of runs and done once for a binding:

s: int64[2] = shape_of(n, m); v = library shape.Add(s, ..); k: shape[step] = match v; y = kernel(x)
->  before a binding: step = 1;  in its runs: y = kernel(x)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.grinder.host import (
    Host,
    analyse_host,
    declared_relations,
    followed_functions,
    is_static,
)
from explorer.ir.annotations import Match, defined_by, match, symbols_in
from explorer.ir.calls import FunctionCall, KernelCall, LibraryCall, MatchCast, ShapeOf, Var, View
from explorer.ir.dims import Sizes, symbol
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import NONE, needed_by
from explorer.ir.symbols import defined_by as defined_by_cast
from explorer.ir.types import ShapeType, Tensor
from explorer.ops.interpreter.evaluate import Interpreter

MOST_ELEMENTS = 64  # of a kernel's result computed from shapes, by NumPy; chosen


@dataclass(frozen=True, slots=True)
class CutProgram:
    """The program in which each region is a function, and the regions as programs."""

    program: Program
    regions: Mapping[str, Program]


def is_dynamic(program: Program, hosted: Collection[str] = ()) -> bool:
    """Return True if values of the run decide something in the program, or the host runs a part."""
    host, main = analyse_host(program, hosted), program.main
    static = all(map(is_static, (*main.params, *main.outputs))) and not _needs_result_checks(
        program, host
    )
    return main.name in host.dynamic or not static


def _needs_result_checks(program: Program, host: Host) -> bool:
    """Return True if a result's declared type says more than its body proves.

    The host then checks it.
    """
    bound = {v.name: v for b in program.main.body for v in b.vars}
    bound |= {p.name: p for p in program.main.params}
    both = ((v, bound.get(v.name, v)) for v in program.main.outputs)
    return any(
        match(a.type, b.type, program.env)[0] < Match.PROVED
        and declared_relations(host, a, b) is None
        for a, b in both
        if a.type != b.type
    )


def cut_regions(program: Program, hosted: Collection[str] = (), strict: bool = False) -> CutProgram:
    """Return the regions of every function that the host runs.

    With `strict` it runs every match_cast.
    """
    host = analyse_host(program, hosted, strict)
    followed = followed_functions(program, host)
    cutter = _Cutter(program, host)
    functions = tuple(cutter.function(f) if f.name in followed else f for f in program.functions)
    cutter.regions = {n: _with_callees(r, program) for n, r in cutter.regions.items()}
    regions = tuple(r.main for r in cutter.regions.values())
    return CutProgram(replace(program, functions=(*functions, *regions)), cutter.regions)


class _Cutter:
    def __init__(self, program: Program, host: Host) -> None:
        self.program, self.host = program, host
        self.regions: dict[str, Program] = {}

    def function(self, function: Function) -> Function:
        """Return the function with a call in place of each region."""
        body: list[Binding] = []
        run: list[Binding] = []
        later = _read_later(function)
        for at, binding in enumerate(function.body):
            if self.host.is_host_only(binding):
                body += [*self.region(function, run, later[at - 1] if run else set()), binding]
                run = []
            else:
                run.append(binding)
        return replace(
            function, body=(*body, *self.region(function, run, later[-1] if run else set()))
        )

    def region(
        self, function: Function, run: list[Binding], later: set[str]
    ) -> tuple[Binding, ...]:
        """Return one call for a run of bindings; views and shapes alone stay with the host."""
        if all(isinstance(b.expr, View | ShapeOf) for b in run):
            return tuple(run)
        bound = {v.name: v for b in run for v in b.vars}
        outputs = tuple(v for n, v in bound.items() if n in later)
        if not outputs:
            return ()
        reads = dict.fromkeys(v for b in run for v in b.reads)
        params = tuple(
            v for v in reads if v.name not in bound and v.name not in self.program.constants
        )
        name = f"{function.name}.region{len(self.regions) + 1}"
        names = tuple(v.name for v in outputs)
        alone = Function(name, params, tuple(run), outputs, names)
        self.regions[name] = replace(self.program, functions=(alone,))
        origin = frozenset[str]().union(*(b.origin for b in run))
        return (Binding(outputs, FunctionCall(name, params), origin),)


def _read_later(function: Function) -> list[set[str]]:
    """Return for each binding the values that a later one, or an output, reads."""
    reads = {v.name for v in function.outputs}
    later: list[set[str]] = []
    for binding in reversed(function.body):
        later.append(set(reads))
        reads |= {v.name for v in binding.reads}
    return later[::-1]


def _with_callees(region: Program, program: Program) -> Program:
    """Return the region with the functions that it calls and the constants that they read."""
    functions = {f.name: f for f in program.functions}
    reached = dict.fromkeys([region.main.name])
    todo = [region.main]
    while todo:
        for binding in todo.pop().body:
            for name in binding.calls:
                if name not in reached:
                    reached[name] = None
                    todo.append(functions[name])
    functions_of_region = (region.main, *(functions[n] for n in reached if n in functions))
    read = {v.name for f in functions_of_region for b in f.body for v in b.reads}
    read |= {v.name for f in functions_of_region for v in f.outputs}
    constants = {n: c for n, c in program.constants.items() if n in read}
    return replace(region, functions=functions_of_region, constants=constants)


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
