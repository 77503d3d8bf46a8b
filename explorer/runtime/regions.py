"""A program cut at what only a run can decide: what lies between is compiled and planned at once.

y = exp(x); i = library NonZero(y); j: int64[2, k] = match i; z = kernel f(y, j)
->  y = call main.region1(x); i = library NonZero(y); j = match i; z = call main.region2(y, j)

A region is a straight run of bindings whose symbols all have values when it begins: kernels, views,
and the loops, branches and calls whose bodies are such runs themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from explorer.grinder.host import Host, followed_functions, host_of, is_static, promise
from explorer.ir.annotations import Match, match
from explorer.ir.calls import FunctionCall, ShapeOf, View
from explorer.ir.program import Binding, Function, Program


@dataclass(frozen=True, slots=True)
class Cut:
    """The program in which each region is a function of its own, and the regions as programs."""

    program: Program
    regions: Mapping[str, Program]


def is_dynamic(program: Program, hosted: Collection[str] = ()) -> bool:
    """Whether something in the program is decided by values of the run, or followed by the host."""
    host, main = host_of(program, hosted), program.main
    static = all(map(is_static, (*main.params, *main.outputs))) and not _promises(program, host)
    return main.name in host.dynamic or not static


def _promises(program: Program, host: Host) -> bool:
    """Whether a result is declared to be more than its body is known to give: the host checks."""
    bound = {v.name: v for b in program.main.body for v in b.vars}
    bound |= {p.name: p for p in program.main.params}
    both = ((v, bound.get(v.name, v)) for v in program.main.outputs)
    return any(
        match(a.type, b.type, program.env)[0] < Match.PROVED and promise(host, a, b) is None
        for a, b in both
        if a.type != b.type
    )


def cut(program: Program, hosted: Collection[str] = (), strict: bool = False) -> Cut:
    """The regions of every function that the host has to follow, or shall; with `strict` it does
    every match_cast.
    """
    host = host_of(program, hosted, strict)
    followed = followed_functions(program, host)
    cutter = _Cutter(program, host)
    functions = tuple(cutter.function(f) if f.name in followed else f for f in program.functions)
    cutter.regions = {n: _with_callees(r, program) for n, r in cutter.regions.items()}
    regions = tuple(r.main for r in cutter.regions.values())
    return Cut(replace(program, functions=(*functions, *regions)), cutter.regions)


class _Cutter:
    def __init__(self, program: Program, host: Host) -> None:
        self.program, self.host = program, host
        self.regions: dict[str, Program] = {}

    def function(self, function: Function) -> Function:
        """The function with a call in place of each region."""
        body: list[Binding] = []
        run: list[Binding] = []
        later = _read_later(function)
        for at, binding in enumerate(function.body):
            if self.host.does(binding):
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
        """One call for a run of bindings; views and shapes alone stay with the host."""
        if all(isinstance(b.expr, View | ShapeOf) for b in run):
            return tuple(run)
        made = {v.name: v for b in run for v in b.vars}
        outputs = tuple(v for n, v in made.items() if n in later)
        if not outputs:
            return ()
        reads = dict.fromkeys(v for b in run for v in b.reads)
        params = tuple(
            v for v in reads if v.name not in made and v.name not in self.program.constants
        )
        name = f"{function.name}.region{len(self.regions) + 1}"
        names = tuple(v.name for v in outputs)
        alone = Function(name, params, tuple(run), outputs, names)
        self.regions[name] = replace(self.program, functions=(alone,))
        origin = frozenset[str]().union(*(b.origin for b in run))
        return (Binding(outputs, FunctionCall(name, params), origin),)


def _read_later(function: Function) -> list[set[str]]:
    """For each binding the values that a later one, or an output, reads."""
    reads = {v.name for v in function.outputs}
    found: list[set[str]] = []
    for binding in reversed(function.body):
        found.append(set(reads))
        reads |= {v.name for v in binding.reads}
    return found[::-1]


def _with_callees(region: Program, program: Program) -> Program:
    """The region, the functions that it calls, and the constants that all these read."""
    functions = {f.name: f for f in program.functions}
    reached = dict.fromkeys([region.main.name])
    todo = [region.main]
    while todo:
        for binding in todo.pop().body:
            for name in binding.calls:
                if name not in reached:
                    reached[name] = None
                    todo.append(functions[name])
    kept = (region.main, *(functions[n] for n in reached if n in functions))
    read = {v.name for f in kept for b in f.body for v in b.reads}
    read |= {v.name for f in kept for v in f.outputs}
    constants = {n: c for n, c in program.constants.items() if n in read}
    return replace(region, functions=kept, constants=constants)
