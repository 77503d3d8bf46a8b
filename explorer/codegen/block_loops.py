"""Loops of a thread block as text: their ends, clipped axes, and the steps that a trip unrolls.

CUDA's and WGSL's printers share them.
"""

from __future__ import annotations

from math import prod

from explorer.codegen.cpu.emitter import affine_text
from explorer.ir.tile_program import Reduce, Span


def ends(s: Span) -> tuple[str, str]:
    """Return the first value and the end of a loop; an end before the first means no trips."""
    low, high = affine_text(s.base), affine_text(s.base + s.size)
    first = f"max({low}, 0)" if s.clip_low else low
    return first, f"min({high}, {s.extent})" if s.clip_high else high


def inside(s: Span, value: str) -> list[str]:
    """Return the conditions under which a value of a clipped axis exists."""
    low = [f"{value} >= 0"] if s.clip_low else []
    return [*low, *([f"{value} < {s.extent}"] if s.clip_high else [])]


def steps_at_once(s: Reduce, most: int) -> int:
    """Return how many steps of the innermost reduced axis one trip unrolls.

    A trip has at most `most` statements.
    """
    if not s.over:
        return 1
    last, points = s.over[-1], max(1, prod(int(x.size) for x in s.spans))
    if last.clip_low or last.clip_high or not isinstance(last.size, int):
        return 1
    fitting = range(1, max(1, min(last.size, most // points)) + 1)
    return max(n for n in fitting if last.size % n == 0)
