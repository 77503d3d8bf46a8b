"""Partition of a program into consecutive programs, each up to some of its results.

`f = a(x); g = b(f, y)` → `f = a(x)` and then `g = b(f, y)`, where f is a result of the first and an
input of the second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.frontends.model import Model
from explorer.ir.calls import Var
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program


@dataclass(frozen=True, slots=True)
class Cut:
    """One of the programs.

    `reads` and `makes` are names of the original program, in the order of inputs and outputs; the
    first `wanted` of `makes` are results.
    """

    model: Model
    reads: tuple[str, ...]
    makes: tuple[Var, ...]
    wanted: int


def cut(program: Program, groups: Sequence[Sequence[Var]], name: str) -> list[Cut]:
    """Build a program for each group of results, from inputs and values of earlier programs.

    Each binding that a result needs is in exactly one of them, in program order.
    """
    places = {v.name: n for n, b in enumerate(program.main.body) for v in b.vars}
    done: set[int] = set()
    parts: list[list[Binding]] = []
    for group in groups:
        mine = _needed_bindings(program.main, group, places, done)
        done |= mine
        parts.append([program.main.body[n] for n in sorted(mine)])
    return [
        _build_part(
            program, part, group, _read_names([*parts[n + 1 :]], groups[n + 1 :]), f"{name}_{n}"
        )
        for n, (part, group) in enumerate(zip(parts, groups, strict=True))
    ]


def uncut(model: Model) -> Cut:
    """Return a model as a single part."""
    main = model.program.main
    return Cut(model, tuple(model.inputs), main.outputs, len(main.outputs))


def done_at(program: Program, result: Var) -> int:
    """Return the number of the binding that computes a result, -1 if none."""
    body = enumerate(program.main.body)
    return next((n for n, b in body if result in b.vars), -1)


def _needed_bindings(
    main: Function, wanted: Iterable[Var], places: dict[str, int], done: Collection[int]
) -> set[int]:
    """Return the numbers of the bindings that these values need, except those done."""
    needed: set[int] = set()
    todo = list(wanted)
    while todo:
        at = places.get(todo.pop().name, -1)
        if at >= 0 and at not in done and at not in needed:
            needed.add(at)
            todo += main.body[at].reads
    return needed


def _read_names(parts: Iterable[Iterable[Binding]], groups: Iterable[Iterable[Var]]) -> set[str]:
    """Return the names that these bindings read or that are results."""
    read = {v.name for part in parts for b in part for v in b.reads}
    return read | {v.name for group in groups for v in group}


def _build_part(
    program: Program, body: Sequence[Binding], group: Sequence[Var], later: Collection[str],
    name: str,
) -> Cut:  # fmt: skip
    bound = {v.name for b in body for v in b.vars}
    available = bound | set(program.constants)
    reads = {v.name: v for v in _all_reads(body, group) if v.name not in available}
    more = {v.name: v for b in body for v in b.vars if v.name in later}
    makes = (*group, *(v for n, v in more.items() if n not in {v.name for v in group}))
    names = tuple(f"output_{n}" for n in range(len(makes)))
    main = Function("main", tuple(reads.values()), tuple(body), makes, names)
    functions = (main, *_called_functions(program, main))
    used = {v.name for f in functions for b in f.body for v in b.reads} | {v.name for v in makes}
    constants = {n: c for n, c in program.constants.items() if n in used}
    own = replace(program, functions=functions, constants=constants, stage=Stage.IMPORTED)
    own = replace(own, name=name)
    model = Model(name, name, own, print_program(own).encode(), python=True)
    return Cut(model, tuple(reads), makes, len(group))


def _all_reads(body: Iterable[Binding], group: Iterable[Var]) -> Iterator[Var]:
    for b in body:
        yield from b.reads
    yield from group


def _called_functions(program: Program, main: Function) -> list[Function]:
    """Return the functions that it calls, transitively."""
    names: set[str] = set()
    todo = [main]
    while todo:
        calls = {n for b in todo.pop().body for n in b.calls} - names
        names |= calls
        todo += [f for f in program.functions if f.name in calls]
    return [f for f in program.functions if f.name in names]
