"""Emission shared by all statements of a thread block: lines, loops, threads' shares, stores.

Arrays in shared memory are declared once for each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from explorer.codegen.block_loops import ends, inside
from explorer.codegen.cpu.emitter import affine_text
from explorer.codegen.cuda.expressions import Scalars, encoded, register, stored_dtype
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import ITEM_BYTES, NARROW_FLOATS, computed, is_stored_otherwise
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Do,
    Fetch,
    For,
    Grid,
    Span,
    TileExpr,
    TileProgram,
    dtype_of_tile,
)
from explorer.ir.tile_traversal import moved
from explorer.tile.verify import ALIGNED_BYTES, room_bytes


@dataclass(slots=True)
class Emitter:
    """The lines of a thread block's source, and the state that its statements share.

    `threads` are those of the block. A trip of a reduction has up to `most_statements` statements.
    `aligned` are the tensors that begin where a vector may be loaded. `multiples` has the number of
    which a tile variable is a multiple. `places` are the loops around a statement that are
    distributed over threads.
    """

    threads: int
    most_statements: int
    aligned: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    expressions: int = 0
    begins: dict[str, int] = field(default_factory=dict)  # of arrays that are parts of another one
    multiples: dict[str, int] = field(default_factory=dict)
    places: tuple[str, ...] = ()

    def line(self, text: str) -> None:
        """Append a line, indented by the loops around it."""
        self.lines.append("    " * self.depth + text)

    def tasks(self, grid: Sequence[Grid]) -> None:
        """Compute the tile variables from the block number; the last one changes fastest."""
        inner = 1
        for n, g in reversed(list(enumerate(grid))):
            text = "_block" if inner == 1 else f"_block // {inner}"
            text = f"{text} % {g.count}" if n else text
            self.line(
                f"{g.variable} = {text}" if g.tile == 1 else f"{g.variable} = ({text}) * {g.tile}"
            )
            inner *= int(g.count)
            self.multiples[g.variable] = g.tile

    def loop(self, s: Span, times: int = 1) -> None:
        """Open a loop over the values of an axis, in order.

        With `times` the loop has that many times fewer trips; each takes the first of `times`
        consecutive values.
        """
        if times == s.size and not (s.clip_low or s.clip_high):
            self.line(f"{s.axis} = {affine_text(s.base)}")
            return
        if s.clip_low or s.clip_high or (times == 1 and not s.base.terms):
            low, high = ends(s)
            self.line(f"for {s.axis} in range({low}, {high}):")
            self.depth += 1
            return
        count = int(s.size) // times if isinstance(s.size, int) else s.size
        self.line(f"for {s.axis}_k in range({count}):")  # a constant count, so that LLVM unrolls
        self.depth += 1
        self.line(f"{s.axis} = {affine_text(s.base + var(f'{s.axis}_k') * times)}")

    def at(self, s: Span, index: TileExpr) -> None:
        """Open a branch for an index inside of a range; the axis is set to the index."""
        self.line(f"{s.axis} = {self.value(self.scalars(), index)}")
        low, high = ends(s)
        self.line(f"if {low} <= {s.axis} and {s.axis} < {high}:")
        self.depth += 1

    def distribute(self, loops: Sequence[For]) -> None:
        """Open distributed loops: each thread takes its own values of them."""
        counts = [x.threads.count for x in loops if x.threads is not None]
        self.places = tuple(x.span.axis for x in loops)
        if prod(counts) < self.threads:
            self.line(f"if _thread < {prod(counts)}:")
            self.depth += 1
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
            self.line(f"{s.axis} = {first}")
            tests = inside(s, s.axis)
        elif not clipped and isinstance(s.size, int) and s.size % count == 0:
            self.line(
                f"for {s.axis}_k in range({s.size // count}):"
            )  # a constant count, as in `loop`
            self.depth += 1
            self.line(f"{s.axis} = {first} + {s.axis}_k * {count}")
            tests = []
        else:
            self.line(f"for {s.axis} in range({first}, {ends(s)[1]}, {count}):")
            self.depth += 1
            tests = inside(s, s.axis)[:1] if s.clip_low else []
        if tests:
            self.line(f"if {' and '.join(tests)}:")
            self.depth += 1

    def scalars(self) -> Scalars:
        """Return a printer for the expressions of a statement, with unique names."""
        self.expressions += 1
        return Scalars(self.expressions, self.begins)

    def value(self, scalars: Scalars, expr: TileExpr) -> str:
        """Print the unprinted parts of an expression; return the text that stands for it."""
        name = scalars.name(expr)
        self._parts(scalars)
        return name

    def part(self, scalars: Scalars, expr: TileExpr) -> str:
        """Print an expression that is used in one place only.

        A product needs no name of its own: Numba's time for a function grows with the square of its
        names.
        """
        if isinstance(expr, Do) and expr.op == "mul":
            text = scalars.right(expr)
            self._parts(scalars)
            return f"({text})"
        return self.value(scalars, expr)

    def load(self, scalars: Scalars, first: Fetch, count: int) -> list[str]:
        """Load `count` neighbours in memory at once; return their names."""
        names = scalars.fresh(count)
        at = scalars.offset(first)
        self._parts(scalars)
        self.line(f"{', '.join(names)} = load{count}({first.buffer.name}, {at})")
        return names

    def word(self, scalars: Scalars, first: Fetch, pair: str, dense: bool) -> str:
        """Load a word of two 16-bit elements along an axis of two; return its name."""
        (name,) = scalars.fresh(1)
        ends = (moved(first, {pair: Affine((), n)}) for n in range(1 if dense else 2))
        places = [scalars.offset(f) for f in ends]
        self._parts(scalars)
        load = "word2" if dense else "word_of"
        self.line(f"{name} = {load}({', '.join((first.buffer.name, *places))})")
        return name

    def store(self, scalars: Scalars, f: Fetch, value: str) -> None:
        """Store a value in an element."""
        in_register = f.buffer.level == REGISTER
        self.store_encoded(scalars, f, value if in_register else encoded(value, f.buffer.dtype))

    def store_both(self, scalars: Scalars, first: Fetch, values: Sequence[str]) -> None:
        """Store two 16-bit values in neighbouring elements at once."""
        dtype, at = first.buffer.dtype, scalars.offset(first)
        encoded_values = (
            f"float16({x})" if dtype == "float16" else encoded(x, dtype) for x in values
        )
        self._parts(scalars)
        self.line(f"store2({first.buffer.name}, {at}, {', '.join(encoded_values)})")

    def store_encoded(self, scalars: Scalars, f: Fetch, encoded_value: str) -> None:
        """Store an encoded value in an element."""
        place = register(f) if f.buffer.level == REGISTER else scalars.element(f)
        self._parts(scalars)
        self.line(f"{place} = {encoded_value}")

    def load_encoded(self, scalars: Scalars, f: Fetch) -> str:
        """Load an element's encoded value; return its name."""
        (name,) = scalars.fresh(1)
        element = scalars.element(f)
        self._parts(scalars)
        self.line(f"{name} = {element}")
        return name

    def assign(self, scalars: Scalars, f: Fetch, expr: TileExpr) -> None:
        """Store an expression in an element; a copy is not rounded."""
        match expr:
            case Fetch(b) if b.dtype == f.buffer.dtype and is_stored_otherwise(b.dtype):
                self.store_encoded(scalars, f, scalars.element(expr))
            case _:
                self.store(scalars, f, self.value(scalars, unrounded(expr, f)))

    def _parts(self, scalars: Scalars) -> None:
        """Print the parts of an expression that are not printed yet."""
        for text in scalars.lines:
            self.line(text)
        scalars.lines.clear()


def unrounded(expr: TileExpr, target: Fetch) -> TileExpr:
    """Return an expression that stores the same element without rounding it earlier."""
    dtype = target.buffer.dtype
    match expr:
        case Do(op, (x,)) if op == f"cast_{dtype}" and target.buffer.level != REGISTER:
            rounds = dtype in NARROW_FLOATS and computed(dtype_of_tile(x)) == "float32"
            return x if rounds else expr
    return expr


def _place(counts: Sequence[int], n: int) -> str:
    """Return a thread's index in one of several nested loops."""
    inner = prod(counts[n + 1 :])
    text = "_thread" if inner == 1 else f"_thread // {inner}"
    return text if n == 0 else f"{text} % {counts[n]}"


STATIC_BYTES = 49_152  # limit of static arrays: CUDA C++ programming guide, 20.4


def in_shared_memory(p: TileProgram) -> list[Buffer]:
    """Return the buffers of a block that its threads share."""
    return [b for b in p.buffers if b.kind == "scratch" and b.level != REGISTER]


def declare_shared(e: Emitter, p: TileProgram, is_dynamic: bool = False) -> None:
    """Declare the arrays in shared memory.

    They are static arrays, or parts of the launch's dynamic memory if they exceed the static limit
    or if `is_dynamic`. Each part counts from where all begin: LLVM would not know the alignment of
    a slice.
    """
    begins, buffers = shared_offsets(p), in_shared_memory(p)
    for b, begin in zip(buffers, begins):
        type_ = "boolean" if b.dtype == "bool" else stored_dtype(b.dtype)
        if begins[-1] <= STATIC_BYTES and not is_dynamic:
            e.line(f"{b.name} = cuda.shared.array({b.size}, {type_}, {ALIGNED_BYTES})")
            continue
        first = begin // ITEM_BYTES[b.dtype]
        e.begins[b.name] = first
        own = f"  # elements {first} to {first + int(b.size)}"
        e.line(f"{b.name} = cuda.shared.array(0, {type_}, {ALIGNED_BYTES}){own}")


def shared_offsets(p: TileProgram) -> list[int]:
    """Return the first bytes of arrays that lie behind each other, and the end of the last."""
    offsets = [0]
    for b in in_shared_memory(p):
        offsets.append(offsets[-1] + room_bytes(b))
    return offsets
