"""Tile programs: the plain one of each kernel, and what every rewrite made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import about, no_such
from explorer.errors import BadOption
from explorer.ir.decisions import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.text.tile_printer import print_tile_program
from explorer.tile.rewrites import steps

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def rewrites(c: Compilation, op: str | None) -> Answer:
    """Each step by name with its lines; in the text a rewrite that changes nothing is a word."""
    if c.device.kind != "cpu":
        raise BadOption(
            f"only tiles of a CPU are lowered to tile programs, and {c.device.name} is none",
            where="--rewrites",
        )
    calls = [b for b in c.program.kernel_calls if about(op, b.name, b.origin)]
    if not calls:
        raise no_such(c, op or "", {b.name: b.origin for b in c.program.kernel_calls})
    data, parts = [], []
    for b in calls:
        call = b.kernel_call
        tiling = call.tiling or Tiling()
        found = [
            (name, print_tile_program(p))
            for name, p in steps(normalise(call.kernel), tiling, c.program.env, c.device)
        ]
        data.append({"kernel": b.name, "steps": [{"name": n, "lines": x} for n, x in found]})
        parts.append(f"{b.name}, from {', '.join(sorted(b.origin))}")
        before: tuple[str, ...] = ()
        for name, lines in found:
            parts.append(f"  {name}: nothing to do" if lines == before else f"  {name}")
            parts += [] if lines == before else [f"    {line}" for line in lines]
            before = lines
    return Answer({"stage": c.stage, "kernels": data}, "\n".join(parts))
