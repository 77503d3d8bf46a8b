"""Outputs that a run may write into the memory of inputs: donated ones, or those given as `out`.

JAX calls the former `donate_argnums`; Relax overwrites an operand by `call_tir_inplace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder import OperatorTask, UProgram
from explorer.relax.memory.in_place import writes_over
from explorer.runtime.planning.allocations import positions
from explorer.runtime.planning.runs.straight_runs import StraightRun
from explorer.runtime.planning.timeline import Uses


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
