"""Inputs of the storage planner: the values that need bytes, and the bytes that each may take.

A kernel may write an output into the bytes of an input that dies there (Relax: call_tir_inplace).
A run may write an output into the memory of an input that the caller gives up (JAX: donate_argnums)
or that it passes as `out`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from explorer.grinder import (
    BranchTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    UProgram,
    UTask,
)
from explorer.grinder.model import straights
from explorer.grinder.straight_runs import StraightRun
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.in_place import read_after
from explorer.ir.kernels.scatter import scatter
from explorer.ir.types import ITEM_BYTES
from explorer.memory.storages import Allocation, ProgramPosition
from explorer.memory.timeline import Uses


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


def writes_over(kernel: Kernel, output: str, tensor: str) -> str:
    """Return why an output must not lie on an input, or "" if it may.

    It may if the task that writes an element is the only one that reads it, and reads it first.
    Generated loops keep the order of their loads and stores for any addresses: nothing in them is
    declared not to alias. Equal addresses still cost a loop its vectorisation.
    """
    if tensor in kernel.constants or kernel.updates:
        return "the call may not write its bytes"
    if not all(_is_over_at_once(kernel, c, output) for c in kernel.computes):
        return "other elements are read after an element is written"
    output_spec, input_spec = kernel.spec(output), kernel.spec(tensor)
    if (
        output_spec.shape != input_spec.shape
        or ITEM_BYTES[output_spec.dtype] != ITEM_BYTES[input_spec.dtype]
    ):
        return "its elements lie elsewhere"
    if output_spec.dtype != input_spec.dtype:
        return "the dtypes differ"
    return read_after(kernel, output, tensor)


def _is_over_at_once(kernel: Kernel, c: Compute, output: str) -> bool:
    """Return True if a compute is a map to an output, or a scatter into memory of its own.

    The scatter's tensor never shares the output's memory if its dtype differs. So no generated loop
    visits an element twice.
    """
    if c.out in kernel.outputs:
        return not c.reduce
    return kernel.dtype(c.out) != kernel.dtype(output) and scatter(kernel, c) is not None


def overwritable(
    program: UProgram, uses: Uses, direct: Mapping[str, int], runs: Sequence[StraightRun]
) -> Mapping[int, frozenset[int]]:
    """Return for each output the inputs, by position, whose memory it may take under any schedule.

    One kernel writes such an output, each element after it has read that element of the input, and
    all other readers of the input end before that kernel begins.
    """
    operators = dict(positions(program.parts, uses))
    out: dict[int, frozenset[int]] = {}
    for root, position in direct.items():
        writes = uses.writes.get(root, [])
        if len(writes) != 1 or writes[0] not in operators or uses.blocks[writes[0]]:
            continue
        inputs = _dying(program, uses, operators[writes[0]], root, writes[0], runs)
        if inputs:
            out[position] = frozenset(program.inputs.index(name) for name in inputs)
    return out


def _dying(
    program: UProgram,
    uses: Uses,
    operator: OperatorTask,
    root: str,
    position: int,
    runs: Sequence[StraightRun],
) -> list[str]:
    """Return the inputs that a kernel may overwrite with the result of that root."""
    kernel = operator.call.kernel
    results = zip(kernel.outputs, operator.results, strict=True)
    output = next(o for o, result in results if program.values[result].root == root)
    begin, over = _over_before(uses, position, runs)
    inputs: list[str] = []
    for tensor, arg in zip(kernel.inputs, operator.args, strict=True):
        value = program.values[arg]
        root_name = value.root
        fills_root = value.is_at(program.values[root_name])
        fills_root = fills_root and value.type.bytes == program.values[root_name].type.bytes
        alone = sum(program.values[a].root == root_name for a in operator.args) == 1
        if program.values[root_name].home != "input" or not fills_root or not alone:
            continue
        others = [p for p in uses.uses[root_name] if p != position]
        ordered = all(p < begin or p in over for p in others)
        if ordered and not writes_over(kernel, output, tensor):
            inputs.append(root_name)
    return inputs


def _over_before(uses: Uses, position: int, runs: Sequence[StraightRun]) -> tuple[int, set[int]]:
    """Return where the kernel's straight run begins, and the positions of the run that are over.

    All positions before the run are over; of the run, those that the kernel awaits completely. A
    task that awaits only its own row does not.
    """
    stretch = next(s for s in uses.stretches if s.begin <= position < s.end)
    run = next(r for r in runs if r.key == stretch.key)
    todo, seen = [(position - stretch.begin, False)], set[tuple[int, bool]]()
    while todo:
        at, complete = todo.pop()
        for before in run.reads[at]:
            state = before, complete or before not in run.aligned[at]
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return stretch.begin, {stretch.begin + n for n, complete in seen if complete}
