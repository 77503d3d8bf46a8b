"""A thread block: its warps, and what one of its threads makes."""

from __future__ import annotations

from math import prod

from explorer.ir.decisions.tiling import Block
from widgets.draw.svg import fit, label, rect
from widgets.draw.table import count_text
from widgets.roller.layout.grid import grid


def threads(block: Block, lanes: int) -> list[str]:
    """The warps of a block, one a row, and the results of a thread."""
    warps = -(-block.threads // lanes)
    count = f"{count_text(block.threads, 'thread')} in {count_text(warps, 'warp')} of {lanes}"
    marks = [
        *grid(150, 160, 150, 76, warps, lanes, marked=True),
        label(150, 252, count, "q"),
        label(12, 284, "a thread", "i w"),
        label(12, 300, each(block)),
        label(12, 316, "in registers", "q"),
    ]
    sizes = [n for _, n in block.register if n > 1] or [1]
    rows, columns = prod(sizes[:-1]), sizes[-1]
    cell = min(10.0, 220 / columns, 56 / rows)
    marks += [
        rect(150 + c * cell, 272 + r * cell, cell - 0.8, cell - 0.8, "var(--t2)")
        for r in range(rows)
        for c in range(columns)
    ]
    told = [
        *(f"{n} of {a} at once" for a, n in block.shared),
        *(f"{n} threads to a sum" for _, n in block.parts if n > 1),
        "on matrix units" if block.matrix else "",
    ]
    note = fit(", ".join(filter(None, told)) or "reads operands once", 236)
    return [*marks, label(150, 344, note, "q")]


def each(block: Block) -> str:
    """The results of a thread along each axis."""
    return "×".join(str(n) for _, n in block.register if n > 1) or "1"
