"""Emission shared by all statements of a shader: lines, loops, threads' shares, and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from explorer.codegen.block_loops import ends, inside
from explorer.codegen.cpu.emitter import affine_text
from explorer.codegen.wgsl.expressions import Scalars, register
from explorer.codegen.wgsl.types import ROUNDED
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import SMALL_INTEGERS, computed
from explorer.ir.tile_program import (
    REGISTER,
    Do,
    Fetch,
    For,
    Grid,
    Span,
    TileExpr,
    dtype_of_tile,
)

MOST_STATEMENTS = (
    64  # of a trip of an unrolled reduction: a bound on a browser's compile time, chosen
)


@dataclass(slots=True)
class Emitter:
    """The lines of a shader's main function, and the state that its statements share.

    `threads` are those of a workgroup, `lanes` those that subgroups exchange values of. `barrier`
    is the text of a Sync. `exchanges` counts the steps of shuffles through workgroup memory.
    """

    threads: int
    features: frozenset[str]
    lanes: int
    barrier: str
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    expressions: int = 0
    exchanges: int = 0
    loops: int = 0  # that are open and not distributed

    def line(self, text: str) -> None:
        """Append a line, indented by the blocks around it."""
        self.lines.append("  " * self.depth + text)

    def open(self, text: str = "") -> None:
        """Open a block, for the statements after it."""
        self.line(f"{text} {{".strip())
        self.depth += 1

    def close(self, depth: int) -> None:
        """Close blocks down to a depth."""
        while self.depth > depth:
            self.depth -= 1
            self.line("}")

    def tasks(self, grid: Sequence[Grid]) -> None:
        """Compute the tile variables from the block number; the last one changes fastest."""
        inner = 1
        for n, g in reversed(list(enumerate(grid))):
            text = "block" if inner == 1 else f"block / {inner}"
            text = f"{text} % {g.count}" if n else text
            tile = text if g.tile == 1 else f"({text}) * {g.tile}"
            self.line(f"let {g.variable} = {tile};")
            inner *= int(g.count)

    def loop(self, s: Span, times: int = 1) -> None:
        """Open a loop over the values of an axis, in order.

        With `times` the loop has that many times fewer trips; each takes the first of `times`
        consecutive values.
        """
        if times == s.size and not (s.clip_low or s.clip_high):
            self.open()
            self.line(f"let {s.axis} = {affine_text(s.base)};")
            return
        if s.clip_low or s.clip_high or (times == 1 and not s.base.terms):
            self.counted(s.axis, *ends(s))
            return
        self.counted(f"{s.axis}_k", "0", str(int(s.size) // times))
        self.line(f"let {s.axis} = {affine_text(s.base + var(f'{s.axis}_k') * times)};")

    def counted(self, name: str, first: str, end: str, step: int = 1) -> None:
        """Open a counting loop."""
        following = f"{name}++" if step == 1 else f"{name} += {step}"
        self.open(f"for (var {name}: i32 = {first}; {name} < {end}; {following})")

    def at(self, s: Span, index: TileExpr) -> None:
        """Open a branch for an index inside of a range; the axis is set to the index."""
        self.open()
        scalars = self.scalars()
        value = self.value(scalars, index)
        self.line(f"let {s.axis} = i32({value});")
        low, high = ends(s)
        self.open(f"if ({low} <= {s.axis} && {s.axis} < {high})")

    def distribute(self, loops: Sequence[For]) -> None:
        """Open distributed loops: each thread takes its own values of them."""
        counts = [x.threads.count for x in loops if x.threads is not None]
        self.open(f"if (thread < {prod(counts)})" if prod(counts) < self.threads else "")
        for n, loop in enumerate(loops):
            self._own(loop.span, counts[n], _place(counts, n))

    def _own(self, s: Span, count: int, place: str) -> None:
        """Open a thread's part of one distributed loop."""
        if count == 1:
            self.loop(s)
            return
        first = place if s.base == Affine() else f"{affine_text(s.base)} + {place}"
        clipped = s.clip_low or s.clip_high
        if s.size == count:
            self.line(f"let {s.axis} = {first};")
            tests = inside(s, s.axis)
        elif not clipped and isinstance(s.size, int) and s.size % count == 0:
            self.counted(f"{s.axis}_k", "0", str(s.size // count))
            self.line(f"let {s.axis} = {first} + {s.axis}_k * {count};")
            tests = []
        else:
            self.counted(s.axis, first, ends(s)[1], count)
            tests = inside(s, s.axis)[:1] if s.clip_low else []
        if tests:
            self.open(f"if ({' && '.join(tests)})")

    def scalars(self) -> Scalars:
        """Return a printer for the expressions of a statement, with unique names."""
        self.expressions += 1
        return Scalars(self.expressions, self.features)

    def value(self, scalars: Scalars, expr: TileExpr) -> str:
        """Print the unprinted parts of an expression; return the text that stands for it."""
        name = scalars.name(expr)
        self.parts(scalars)
        return name

    def part(self, scalars: Scalars, expr: TileExpr) -> str:
        """Print an expression that is used in one place only; a product needs no name."""
        if isinstance(expr, Do) and expr.op == "mul" and dtype_of_tile(expr) == "float32":
            text = scalars.right(expr)
            self.parts(scalars)
            return f"({text})"
        return self.value(scalars, expr)

    def store(self, scalars: Scalars, f: Fetch, value: str) -> None:
        """Store a value in an element."""
        in_register = f.buffer.level == REGISTER
        self.store_as_is(scalars, f, value if in_register else scalars.stored(value, f))

    def store_as_is(self, scalars: Scalars, f: Fetch, value: str) -> None:
        """Store a value that has the type of an element and is rounded."""
        if f.buffer.level == REGISTER:
            text = f"{register(f)} = {value};"
        elif f.buffer.kind == "scratch":
            text = f"{f.buffer.name}[{scalars.offset(f)}] = {value};"
        else:
            text = f"set_{f.buffer.name}({scalars.offset(f)}, {value});"
        self.parts(scalars)
        self.line(text)

    def assign(self, scalars: Scalars, f: Fetch, expr: TileExpr) -> None:
        """Store an expression in an element."""
        self.store(scalars, f, self.value(scalars, unrounded(expr, f)))

    def parts(self, scalars: Scalars) -> None:
        """Print the parts of an expression that are not printed yet."""
        for text in scalars.lines:
            self.line(text)
        scalars.lines.clear()


def unrounded(expr: TileExpr, target: Fetch) -> TileExpr:
    """Return an expression that stores the same element without rounding it earlier."""
    dtype = target.buffer.dtype
    match expr:
        case Do(op, (x,)) if op == f"cast_{dtype}" and target.buffer.level != REGISTER:
            is_rounded_later = dtype in ROUNDED and computed(dtype_of_tile(x)) == "float32"
            return x if is_rounded_later else expr
    return expr


def is_copy(target: Fetch, expr: TileExpr) -> bool:
    """Return True if an expression is an element of the same dtype, which is rounded already."""
    dtype = target.buffer.dtype
    narrow = dtype in ROUNDED or dtype in SMALL_INTEGERS
    return narrow and isinstance(expr, Fetch) and expr.buffer.dtype == dtype


def _place(counts: Sequence[int], n: int) -> str:
    """Return a thread's index in one of several nested loops."""
    inner = prod(counts[n + 1 :])
    text = "thread" if inner == 1 else f"thread / {inner}"
    return text if n == 0 else f"{text} % {counts[n]}"
