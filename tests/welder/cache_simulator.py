"""A cache of sets of lines, the least recently used one evicted, and an interpreter of tile
programs that feeds it every address that they load and store, in order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.tile_program import (
    Buffer,
    Contract,
    Fetch,
    Pack,
    Statement,
    TileExpr,
    TileProgram,
    fetches,
)
from explorer.ir.types import ITEM_BYTES
from explorer.tile.interpret import Env, Interpreter

LINE = 64


@dataclass
class Cache:
    """`ways` lines in each set; a written line goes back when it is evicted, a line that is written
    first is not fetched.
    """

    capacity: int
    ways: int = 16
    fetched: int = 0
    written_back: int = 0
    sets: list[OrderedDict[int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sets = [OrderedDict() for _ in range(max(1, self.capacity // (LINE * self.ways)))]

    def touch(self, line: int, write: bool) -> None:
        """One load or store of a line."""
        lines = self.sets[line % len(self.sets)]
        dirty = lines.pop(line, None)
        if dirty is None:
            self.fetched += not write
            if len(lines) >= self.ways:
                self.written_back += lines.popitem(last=False)[1]
            dirty = False
        lines[line] = dirty or write

    def flush(self, first: int, last: int) -> None:
        """Written lines of a range of addresses go back to memory."""
        for lines in self.sets:
            self.written_back += sum(d for n, d in lines.items() if first <= n * LINE < last)

    @property
    def moved(self) -> int:
        """Bytes between the cache and the memory behind it."""
        return (self.fetched + self.written_back) * LINE


class Walker(Interpreter):
    """Runs a tile program, point by point of a statement's rows, and feeds a cache."""

    def __init__(
        self,
        program: TileProgram,
        arrays: Mapping[str, np.ndarray],
        sizes: Sizes,
        cache: Cache,
    ) -> None:
        super().__init__(program, arrays, sizes)
        self.cache = cache
        self.trace: list[tuple[np.ndarray, bool]] = []
        self.start: dict[str, int] = {}
        end = 0
        for b in program.buffers:
            self.start[b.name] = end
            size = evaluate_dim(b.size, sizes) * ITEM_BYTES[b.dtype]
            end += -(-size // LINE) * LINE

    def run(self) -> None:
        """Every task; what was written to the output goes back to memory at the end."""
        super().run()
        for b in self.program.buffers:
            if b.kind == "output":
                size = evaluate_dim(b.size, self.sizes) * ITEM_BYTES[b.dtype]
                self.cache.flush(self.start[b.name], self.start[b.name] + size)

    def note(self, buffer: Buffer, offsets: Any, write: bool) -> None:
        """Remembers the addresses of one load or store of a statement."""
        at = np.asarray(offsets) * ITEM_BYTES[buffer.dtype] + self.start[buffer.name]
        self.trace.append((at // LINE, write))

    def value(self, expr: TileExpr, env: Env) -> Any:
        """As the interpreter does, with its loads noted."""
        for f in fetches(expr) if isinstance(expr, Fetch) else ():
            self.note(f.buffer, self.where(f, env)[1], False)
        return super().value(expr, env)

    def store(self, f: Fetch, env: Env, value: Any) -> None:
        """As the interpreter does, with the store noted."""
        self.note(f.buffer, self.where(f, env)[1], True)
        super().store(f, env, value)
        self.feed()

    def statement(self, s: Statement, env: Env) -> None:
        """One statement; its addresses are fed in the order of its rows."""
        super().statement(s, env)
        self.feed()

    def contract(self, c: Contract, lanes: int, env: Env, rows: int) -> None:
        """One register tile: each step loads a value of every row and one row of the panel."""
        (_, a_at), (_, b_at) = self.where(c.a, env), self.where(c.b, env)
        steps = np.arange(self.dim(c.depth))
        along = (np.asarray(c.segment_values)[:, None] + steps * c.a_step).ravel()
        start = np.broadcast_to(a_at.reshape(-1, 1) if a_at.ndim else a_at, (rows, 1))
        down = np.arange(len(along))[:, None] * c.b_step + np.arange(lanes)
        self.note(c.a.buffer, (start + along).T, False)
        self.note(c.b.buffer, np.ravel(b_at)[0] + down, False)
        super().contract(c, lanes, env, rows)
        self.note(c.acc, np.arange(rows * lanes), True)
        self.feed()

    def pack(self, s: Pack, env: Env) -> None:
        """As the interpreter does: what it loads is noted there, here what it stores."""
        super().pack(s, env)
        columns = -(-len(self.values(s.columns, env)) // s.lanes) * s.lanes
        depth = prod([len(self.values(x, env)) for x in s.depth])
        self.note(s.target, np.arange(columns * depth), True)
        self.feed()

    def feed(self) -> None:
        """What was noted, row by row of the points: loads and the store of a row follow each other,
        as the loops of the code do.
        """
        trace, self.trace = self.trace, []
        rows = max((len(lines) for lines, _ in trace if lines.ndim > 1), default=1)
        for n in range(rows):
            for lines, write in trace:
                row = lines[n] if lines.ndim > 1 and len(lines) == rows else lines
                if row is lines and n and lines.ndim > 1:
                    continue
                for line in dict.fromkeys(np.ravel(row).tolist()):
                    self.cache.touch(line, write)
