"""Tile programs: the initial one of each kernel, and the result of every rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import is_about, unknown_name
from explorer.cli.explained.labels import PROGRAM, labels
from explorer.cost.bind_kernel import bind_kernel
from explorer.errors import BadOption, CheckFailed
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_programs.program import TileProgram
from explorer.roller.blocks.thread_block import PREDICTED, in_own_names, thread_block_steps
from explorer.tile.rewrites import steps

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def rewrites(c: Compilation, op: str | None) -> Answer:
    """Return each step by name with its lines; the text marks a step that changes nothing.

    On a GPU these are the steps of its thread blocks, or the reason why a kernel has none.
    """
    calls = [b for b in c.program.kernel_calls if is_about(op, b.name, b.origin)]
    if not calls:
        raise unknown_name(c, op or "", {b.name: b.origin for b in c.program.kernel_calls})
    call_labels, gpu = labels(c), c.device.kind != "cpu"
    data, parts = [], [f"{PREDICTED.format(c.device.name)}\n"] if gpu else []
    for b in calls:
        parts.append(
            f"{call_labels[b.name]}: {b.name} {PROGRAM}, from {', '.join(sorted(b.origin))}"
        )
        entry: dict[str, object] = {"kernel": b.name}
        try:
            programs = [(n, print_tile_program(p)) for n, p in _steps(c, b.name, b.kernel_call)]
        except (BadOption, CheckFailed) as problem:
            if not gpu:
                raise
            entry["refused"] = problem.sentence
            parts.append(f"  {problem}")
            programs = []
        data.append({**entry, "steps": [{"name": n, "lines": x} for n, x in programs]})
        before: tuple[str, ...] = ()
        for name, lines in programs:
            parts.append(f"  {name}: nothing to do" if lines == before else f"  {name}")
            parts += [] if lines == before else [f"    {line}" for line in lines]
            before = lines
    kind = {"predicted_for": c.device.name} if gpu else {}
    return Answer({"stage": c.stage, **kind, "kernels": data}, "\n".join(parts))


def _steps(c: Compilation, name: str, call: KernelCall) -> tuple[tuple[str, TileProgram], ...]:
    env = c.program.env
    if c.device.kind != "cpu":
        bound = normalise(bind_kernel(call.kernel, env.hints))
        block = c.chosen_blocks().get(name, (None,))[0]
        return thread_block_steps(bound, c.device, env, {}, block and in_own_names(block, bound))
    return steps(normalise(call.kernel), call.tiling or Tiling(), env, c.device)
