"""Partition of a program at the points that only a run decides, into compiled regions.

y = exp(x); i = library NonZero(y); j: int64[2, k] = match i; z = kernel f(y, j)
->  y = call main.region1(x); i = library NonZero(y); j = match i; z = call main.region2(y, j)

A region is a straight run of bindings whose symbols all have values when it begins: kernels, views,
and the loops, branches and calls whose bodies are such runs themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from explorer.grinder.host import (
    Host,
    analyse_host,
    declared_relations,
    followed_functions,
    is_static,
)
from explorer.ir.annotations import Match, match
from explorer.ir.calls import FunctionCall, ShapeOf, View
from explorer.ir.program import Binding, Function, Program


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
