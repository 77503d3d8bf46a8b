"""Which outputs a run may write into the memory of which inputs: what a caller donates, or gives as
`out`. JAX calls the first `donate_argnums`; Relax writes over an operand by `call_tir_inplace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.grinder import OperatorTask, UProgram
from explorer.relax.memory.in_place import writes_over
from explorer.runtime.planning.allocations import positions
from explorer.runtime.planning.runs.straight_runs import Run
from explorer.runtime.planning.timeline import Uses


def overwritable(
    program: UProgram, uses: Uses, direct: Mapping[str, int], runs: Sequence[Run]
) -> Mapping[int, frozenset[int]]:
    """For each output the inputs, by position, in whose memory it may lie under any schedule.

    One kernel writes such an output, each element after it has read that element of the input, and
    whatever else reads the input is over before that kernel begins.
    """
    operators = dict(positions(program.parts, uses))
    out: dict[int, frozenset[int]] = {}
    for root, position in direct.items():
        writes = uses.writes.get(root, [])
        if len(writes) != 1 or writes[0] not in operators or uses.blocks[writes[0]]:
            continue
        found = _dying(program, uses, operators[writes[0]], root, writes[0], runs)
        if found:
            out[position] = frozenset(program.inputs.index(name) for name in found)
    return out


def _dying(
    program: UProgram,
    uses: Uses,
    operator: OperatorTask,
    root: str,
    position: int,
    runs: Sequence[Run],
) -> list[str]:
    """The inputs that a kernel may write over with the result of that root."""
    kernel = operator.call.kernel
    made = zip(kernel.outputs, operator.results, strict=True)
    output = next(o for o, result in made if program.values[result].root == root)
    begin, over = _over_before(uses, position, runs)
    found: list[str] = []
    for tensor, arg in zip(kernel.inputs, operator.args, strict=True):
        value = program.values[arg]
        given = value.root
        whole = value.is_at(program.values[given])
        whole = whole and value.type.bytes == program.values[given].type.bytes
        alone = sum(program.values[a].root == given for a in operator.args) == 1
        if program.values[given].home != "input" or not whole or not alone:
            continue
        others = [p for p in uses.uses[given] if p != position]
        ordered = all(p < begin or p in over for p in others)
        if ordered and not writes_over(kernel, output, tensor):
            found.append(given)
    return found


def _over_before(uses: Uses, position: int, runs: Sequence[Run]) -> tuple[int, set[int]]:
    """Where the kernel's straight run begins, all before which is over, and which positions of the
    run are: those that it awaits as a whole. A task that awaits its own row alone does not.
    """
    stretch = next(s for s in uses.stretches if s.begin <= position < s.end)
    run = next(r for r in runs if r.key == stretch.key)
    todo, seen = [(position - stretch.begin, False)], set[tuple[int, bool]]()
    while todo:
        at, whole = todo.pop()
        for before in run.reads[at]:
            state = before, whole or before not in run.aligned[at]
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return stretch.begin, {stretch.begin + n for n, whole in seen if whole}
