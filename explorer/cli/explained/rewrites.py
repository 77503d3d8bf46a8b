"""Tile programs: the plain one of each kernel, and what every rewrite made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.find import about, no_such
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
    """Each step by name with its lines; in the text a rewrite that changes nothing is a word. Of a
    GPU, what is printed for its blocks, and why there is none of a kernel.
    """
    calls = [b for b in c.program.kernel_calls if about(op, b.name, b.origin)]
    if not calls:
        raise no_such(c, op or "", {b.name: b.origin for b in c.program.kernel_calls})
    called, gpu = labels(c), c.device.kind != "cpu"
    data, parts = [], [f"{PREDICTED.format(c.device.name)}\n"] if gpu else []
    for b in calls:
        parts.append(f"{called[b.name]}: {b.name} {PROGRAM}, from {', '.join(sorted(b.origin))}")
        told: dict[str, object] = {"kernel": b.name}
        try:
            found = [(n, print_tile_program(p)) for n, p in _steps(c, b.name, b.kernel_call)]
        except (BadOption, CheckFailed) as problem:
            if not gpu:
                raise
            told["refused"] = problem.sentence
            parts.append(f"  {problem}")
            found = []
        data.append({**told, "steps": [{"name": n, "lines": x} for n, x in found]})
        before: tuple[str, ...] = ()
        for name, lines in found:
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
