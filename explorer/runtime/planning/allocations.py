"""Inputs of the storage planner: the values that need bytes, and when each is used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from explorer.grinder import (
    BranchTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UProgram,
    UTask,
)
from explorer.relax.memory.in_place import writes_over
from explorer.relax.memory.storages import Allocation, ProgramPosition
from explorer.runtime.planning.timeline import Uses


def allocations(program: UProgram, uses: Uses, direct: Collection[str]) -> tuple[Allocation, ...]:
    """Return every root that is written into memory of its own; its aliases share one owner."""
    aliases: dict[str, list[str]] = {}
    for value in program.values.values():
        if value.root != value.name:
            aliases.setdefault(value.root, []).append(value.name)
    pinned = dict(_pinned_values(program.parts))
    results = {program.values[name].root for name in program.outputs}
    out = []
    for name, value in program.values.items():
        if value.root != name or value.home != "buffer" or name not in uses.writes or value.frame:
            continue
        reason = pinned.get(name, "") or _used_elsewhere(name, uses)
        if name in results and name not in direct and not reason:
            reason = "a result that is copied out"
        block = uses.blocks[uses.writes[name][0]]
        alias = tuple(aliases.get(name, ()))
        out.append(Allocation(name, value.type, block, reason, name in direct, alias))
    return tuple(out)


def steps(
    program: UProgram, uses: Uses, names: Collection[str], in_place: bool
) -> list[ProgramPosition]:
    """Return each position with the allocations that it uses."""
    over: dict[int, list[tuple[str, str, str]]] = {}
    if in_place:
        for position, operator in positions(program.parts, uses):
            over[position] = list(_overwrites(program, operator))
    return [
        ProgramPosition(tuple(n for n in used if n in names), tuple(over.get(position, ())))
        for position, used in enumerate(uses.used)
    ]


def positions(parts: Sequence[UTask], uses: Uses) -> Iterator[tuple[int, OperatorTask]]:
    """Yield every kernel call with its position."""
    begins = {s.key: s.begin for s in uses.stretches if s.key}
    for part in straights(parts):
        for n, operator in enumerate(part.operators):
            yield begins[part.operators[0].name] + n, operator


def straights(parts: Sequence[UTask]) -> Iterator[Straight]:
    """Yield every run of kernels in order, those inside of loops and branches included."""
    for part in parts:
        match part:
            case Straight():
                yield part
            case LoopTask(body=body) | RecursionTask(body=body):
                yield from straights(body)
            case BranchTask(then=then, orelse=orelse):
                yield from straights((*then, *orelse))
            case _:
                continue


def calls_of(parts: Sequence[UTask]) -> Iterator[OperatorTask | LibraryTask]:
    """Yield every call of a kernel or a library, those inside of loops and branches included."""
    for part in parts:
        match part:
            case Straight(operators=operators):
                yield from operators
            case LibraryTask():
                yield part
            case LoopTask(body=body) | RecursionTask(body=body):
                yield from calls_of(body)
            case BranchTask(then=then, orelse=orelse):
                yield from calls_of((*then, *orelse))
            case _:
                continue


def loops_of(parts: Sequence[UTask]) -> Iterator[LoopTask]:
    """Yield every loop, those inside of loops and branches included."""
    for part in parts:
        match part:
            case LoopTask(body=body):
                yield part
                yield from loops_of(body)
            case RecursionTask(body=body):
                yield from loops_of(body)
            case BranchTask(then=then, orelse=orelse):
                yield from loops_of((*then, *orelse))
            case _:
                continue


def recursions_of(parts: Sequence[UTask]) -> Iterator[RecursionTask]:
    """Yield every recursion, an outer one before those inside."""
    for part in parts:
        match part:
            case RecursionTask(body=body):
                yield part
                yield from recursions_of(body)
            case LoopTask(body=body):
                yield from recursions_of(body)
            case BranchTask(then=then, orelse=orelse):
                yield from recursions_of((*then, *orelse))
            case _:
                continue


def _pinned_values(parts: Sequence[UTask]) -> Iterator[tuple[str, str]]:
    """Yield the values that control flow keeps alive, with the reason."""
    for part in parts:
        match part:
            case BranchTask():
                yield part.cond, "decides a branch"
                yield from ((row[0], "the value of a branch") for row in part.results)
                yield from _pinned_values((*part.then, *part.orelse))
            case LoopTask():
                yield from ((count, "the count of a loop") for count in part.counts)
                yield part.going, "decides a loop"
                for c in part.carried:
                    yield c.param, "the state of a loop"
                    if c.staging:
                        yield c.staging, "the next state of a loop"
                yield from ((s.result, "the rows that a loop stacks") for s in part.stacked)
                yield from _pinned_values(part.body)
            case RecursionTask():
                yield from ((r, "the result of a recursion") for r in part.results)
                yield from _pinned_values(part.body)
            case _:
                continue


def _used_elsewhere(name: str, uses: Uses) -> str:
    """Return why a value cannot share memory: it is used outside of the block that computes it."""
    home = uses.blocks[uses.writes[name][0]]
    others = (uses.blocks[p] for p in uses.uses[name])
    other = next((b for b in others if b != home), None)
    return "" if other is None else f"used in {other or 'the program'}, computed in {home or 'it'}"


def _overwrites(program: UProgram, operator: OperatorTask) -> Iterator[tuple[str, str, str]]:
    """Yield (result, the root of an input, why the kernel must not overwrite the latter)."""
    for output, result in zip(operator.call.kernel.outputs, operator.results, strict=True):
        if program.values[result].root == result:
            yield from _overwrites_of(program, operator, output, result)


def _overwrites_of(
    program: UProgram, operator: OperatorTask, output: str, result: str
) -> Iterator[tuple[str, str, str]]:
    kernel = operator.call.kernel
    for tensor, arg in zip(kernel.inputs, operator.args):
        value = program.values[arg]
        reason = writes_over(kernel, output, tensor)
        if (
            value.moves
            or value.offset != 0
            or value.type.bytes != program.values[value.root].type.bytes
        ):
            reason = "it is a part of a value"
        if sum(program.values[a].root == value.root for a in operator.args) > 1:
            reason = "its bytes are read under two names"
        if program.values[value.root].home == "buffer":
            yield result, value.root, reason
