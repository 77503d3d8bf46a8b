"""The register tile of a contraction as LLVM vector code: fused multiply-adds, then the epilogue.

Two loops surround `rows` x `vectors` accumulators that stay in registers: over the segments of the
left operand, and along each segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.llvm_value import IN_L2, prefetch_line
from explorer.codegen.cpu.micro_elements import PLAIN, Elements
from explorer.codegen.cpu.translate import mark_loop
from explorer.devices.model import LINE_BYTES, PAGE_BYTES
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernels.forms import Form

I64 = ir.IntType(64)

AHEAD_BYTES = PAGE_BYTES  # hardware prefetchers stop at the end of a page
# Products of vectors in a step. On 8 lanes and 16 registers a prefetch in every step took 3 % of
# their time (`make bench kernel_table BENCH_FLAGS="--only matmul"`); the bound is chosen.
SHORT_STEP_PRODUCTS = 12
STEPS_UNROLLED = 4  # short steps that share one prefetch; chosen

Tree = Any  # "acc" | float | an operand's number | (op, Tree, Tree)
TABLE = "table"  # the row step of operands whose rows are in a table


@cache
def micro_kernel(
    rows: int,
    vectors: int,
    lanes: int,
    a_step: int,
    b_step: int,
    stride: int | None = None,
    tree: Tree = "acc",
    steps: tuple[tuple[int | str | None, int], ...] = (),
    prefetch: bool = False,
    form: Form = PLAIN,
    dot: str = "plain",
    single: bool = False,
) -> Any:
    """Return an intrinsic that computes one register tile.

    target[row][column] = tree of acc = sum over segments, k:
    a[table[row] + segment + k * a_step] * b[n * b_step + column].

    Args:
        rows: rows of the tile.
        vectors: vectors of each row.
        lanes: elements of a vector.
        a_step: elements of the left operand from step to step.
        b_step: elements of the right operand from step to step.
        stride: the constant distance of the rows of `a`. They are addressed from the first one,
            whose offset `table` is then, instead of one register a row.
        tree: the epilogue, computed on registers: "acc", a float, an operand's number, or
            (op, tree, ...). Operand 0 is the target.
        steps: the operands' distances from row to row and from column to column (0 or 1). A row
            distance of None is passed at run time, in elements, after the operands; for TABLE the
            address of the table of its rows is passed there. Default: a dense micro-tile.
        prefetch: each step prefetches the line at `ahead`, which moves on by `pace` bytes; for one
            row it prefetches the lines a page ahead.
        form: the types of the elements.
        dot: how groups of elements are multiplied.
        single: every segment has one step, so there is no inner loop.

    Depth and segments are 1 or more.
    """
    shape = _Shape(rows, vectors, lanes, a_step, b_step, stride, prefetch, single)
    places = steps or ((vectors * lanes, 1),)

    @intrinsic
    def contract(context, a, table, segments, count, depth, b, ahead, pace, operands):
        def emit(cx, builder, sig, args):
            *arguments, others = args
            emitter = _Emitter(builder, shape, places, Elements(builder, form, lanes, dot))
            emitter.contract(*arguments)
            emitter.store(tree, others)
            return cx.get_dummy_value()

        numbers = len(places) + sum(not isinstance(row, int) for row, _ in places)
        return types.void(*[types.intp] * 8, types.UniTuple(types.intp, numbers)), emit

    return contract


@dataclass(frozen=True, slots=True)
class _Shape:
    """The form of a micro-kernel; its fields are the parameters of `micro_kernel`."""

    rows: int
    vectors: int
    lanes: int
    a_step: int
    b_step: int
    stride: int | None
    prefetch: bool
    single: bool


class _Emitter:
    """The emitter of one micro-kernel; `sums` are the accumulators at its end."""

    def __init__(
        self,
        b: Any,
        shape: _Shape,
        places: tuple[tuple[int | str | None, int], ...],
        elements: Elements,
    ) -> None:
        """Create an emitter at a builder's position."""
        self.b, self.shape, self.places, self.elements = b, shape, places, elements
        self.vector = elements.vector
        self.sums: list[Any] = []
        self.steps: dict[int, Any] = {}  # row distances of operands, or their tables
        self.tabled: dict[tuple[int, int], Any] = {}  # offsets of operands' rows, from their tables

    def phis(self, starts: list[Any], block: Any) -> list[Any]:
        """Return a loop-carried value for each start."""
        carried = [self.b.phi(s.type) for s in starts]
        for phi, start in zip(carried, starts, strict=True):
            phi.add_incoming(start, block)
        return carried

    def close(self, phis: list[Any], values: list[Any], repeats: Any, top: Any, after: Any) -> None:
        """Close a loop: carry the values to its top while the condition is true.

        With LLVM's unrolling on top a 3x3 convolution of 64 channels took half as long again, and
        one of 24 to 144 in a batch of 8 almost twice as long (AVX2, `make bench kernel_table
        BENCH_FLAGS="--only conv"`).
        """
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, self.b.block)
        mark_loop(self.b.module, self.b.cbranch(repeats, top, after))
        self.b.position_at_end(after)

    def contract(
        self,
        a: Any,
        table: Any,
        segments: Any,
        count: Any,
        depth: Any,
        columns: Any,
        ahead: Any,
        pace: Any,
    ) -> None:
        """Emit both loops; the sums are left in registers."""
        b, shape = self.b, self.shape
        starts = self.row_starts(b.inttoptr(a, self.elements.left.as_pointer()), table)
        offsets = b.inttoptr(segments, I64.as_pointer())
        first = b.inttoptr(columns, self.elements.right.as_pointer())
        zeros = [self.elements.constant(0.0)] * (shape.rows * shape.vectors)
        entry = b.block
        outer, after, done = (b.append_basic_block(n) for n in ("segment", "after", "done"))
        b.branch(outer)
        b.position_at_end(outer)
        carried = self.phis([I64(0), first, ahead, *zeros], entry)
        offset = b.load(b.gep(offsets, [carried[0]]))
        along = [offset, I64(0), *carried[1:]]
        if shape.single:
            along = self.step(starts, along, pace)
            b.branch(after)
            b.position_at_end(after)
        elif self.spaces_prefetches:
            along = self.unrolled_steps(starts, along, depth, pace, after)
        else:
            along = self.single_steps(starts, along, depth, pace, after)
        _, _, panel, line, *self.sums = along
        segment = b.add(carried[0], I64(1))
        more = b.icmp_signed("<", segment, count)
        self.close(carried, [segment, panel, line, *self.sums], more, outer, done)

    @property
    def spaces_prefetches(self) -> bool:
        """True if a prefetch in every step would displace loads: in short steps."""
        shape = self.shape
        return (
            shape.prefetch and shape.rows > 1 and shape.rows * shape.vectors <= SHORT_STEP_PRODUCTS
        )

    def single_steps(
        self, starts: list[Any], first: list[Any], depth: Any, pace: Any, after: Any
    ) -> list[Any]:
        """Emit all steps of a segment, one or more."""
        b, entry = self.b, self.b.block
        inner = b.append_basic_block("depth")
        b.branch(inner)
        b.position_at_end(inner)
        within = self.phis(first, entry)
        along = self.step(starts, within, pace)
        self.close(within, along, b.icmp_signed("<", along[1], depth), inner, after)
        return along

    def unrolled_steps(
        self, starts: list[Any], first: list[Any], depth: Any, pace: Any, after: Any
    ) -> list[Any]:
        """Emit all steps of a segment with a prefetch for four of them.

        It applies while four steps move the prefetch on by a line at most.
        """
        b, entry = self.b, self.b.block
        fours, remainder, single = (b.append_basic_block(n) for n in ("fours", "rest", "one"))
        slow = b.icmp_signed("<=", pace, I64(LINE_BYTES // STEPS_UNROLLED))
        unrolled_depth = b.select(slow, b.and_(depth, I64(-STEPS_UNROLLED)), I64(0))
        b.cbranch(b.icmp_signed(">", unrolled_depth, I64(0)), fours, remainder)
        b.position_at_end(fours)
        within = self.phis(first, entry)
        along = self.step(starts, within, b.mul(pace, I64(STEPS_UNROLLED)))
        for _ in range(STEPS_UNROLLED - 1):
            along = self.step(starts, along)
        self.close(within, along, b.icmp_signed("<", along[1], unrolled_depth), fours, remainder)
        left = self.phis(first, entry)
        for phi, value in zip(left, along, strict=True):
            phi.add_incoming(value, fours)
        b.cbranch(b.icmp_signed("<", left[1], depth), single, after)
        b.position_at_end(single)
        for phi, value in zip(left, self.step(starts, left, pace), strict=True):
            phi.add_incoming(value, single)
        b.branch(remainder)
        b.position_at_end(after)
        return left

    def step(self, starts: list[Any], within: list[Any], pace: Any = None) -> list[Any]:
        """Emit one step of the depth; return the values that the next one begins with.

        It has a prefetch if it has a pace.
        """
        b, shape = self.b, self.shape
        k, step, panel, line, *sums = within
        if shape.prefetch and shape.rows == 1:
            self.prefetch_lines(panel)
        elif shape.prefetch and pace is not None:
            prefetch_line(self.b, line, IN_L2)
            line = b.add(line, pace)
        sums = self.multiply_add(starts, k, panel, sums)
        panel = b.gep(panel, [I64(shape.b_step)])
        return [b.add(k, I64(shape.a_step)), b.add(step, I64(1)), panel, line, *sums]

    def prefetch_lines(self, panel: Any) -> None:
        """Prefetch every line that a step reads a page later.

        One row reads each line once, so that only loads take time. The products of an LSTM's cell,
        512 KB of weights a core, took 9.0 us with prefetches of the next panel and 8.0 with these
        (Zen 3).
        """
        b, shape = self.b, self.shape
        step_bytes = shape.b_step * ITEM_BYTES[self.elements.form.right]
        start = b.ptrtoint(panel, I64)
        for line in range(0, step_bytes, LINE_BYTES):
            prefetch_line(b, b.add(start, I64(AHEAD_BYTES + line)))

    def row_starts(self, base: Any, table: Any) -> list[Any]:
        """Return the address of each row of the left operand; with a stride only of the first."""
        b = self.b
        if self.shape.stride is not None:
            return [b.gep(base, [table])]
        places = b.inttoptr(table, I64.as_pointer())
        return [b.gep(base, [b.load(b.gep(places, [I64(i)]))]) for i in range(self.shape.rows)]

    def multiply_add(self, starts: list[Any], k: Any, panel: Any, sums: list[Any]) -> list[Any]:
        """Emit one step of the depth: add the products of all row values and column vectors."""
        b, shape = self.b, self.shape
        e, wide = self.elements, shape.lanes * self.elements.form.cells
        columns = [e.column(b.gep(panel, [I64(j * wide)])) for j in range(shape.vectors)]
        new = []
        for i in range(shape.rows):
            if shape.stride is None:
                at = b.gep(starts[i], [k])
            else:
                at = b.gep(starts[0], [b.add(k, I64(i * shape.stride))])
            x = e.row(at)
            new += [
                e.add_product(x, columns[j], sums[i * shape.vectors + j])
                for j in range(shape.vectors)
            ]
        return new

    def store(self, tree: Tree, operands: Any) -> None:
        """Emit the epilogue on the registers, and store the target."""
        b, cell = self.b, self.elements.total.as_pointer()
        count = len(self.places)
        bases = [b.inttoptr(b.extract_value(operands, n), cell) for n in range(count)]
        at_run_time = [n for n, (row, _) in enumerate(self.places) if not isinstance(row, int)]
        self.steps = {n: b.extract_value(operands, count + i) for i, n in enumerate(at_run_time)}
        for i in range(self.shape.rows):
            for j in range(self.shape.vectors):
                value = self.value(tree, bases, i, j)
                b.store(
                    value, b.bitcast(self.place(bases, 0, i, j), self.vector.as_pointer()), align=4
                )

    def place(self, bases: list[Any], n: int, i: int, j: int) -> Any:
        """Return the address of an operand for row i and column vector j."""
        row, column = self.places[n]
        along = j * self.shape.lanes * column
        if isinstance(row, int):
            return self.b.gep(bases[n], [I64(i * row + along)])
        if row == TABLE:
            if (n, i) not in self.tabled:
                table = self.b.inttoptr(self.steps[n], I64.as_pointer())
                self.tabled[n, i] = self.b.load(self.b.gep(table, [I64(i)]))
            return self.b.gep(bases[n], [self.b.add(self.tabled[n, i], I64(along))])
        down = self.b.mul(I64(i), self.steps[n])
        return self.b.gep(bases[n], [self.b.add(down, I64(along))])

    def value(self, tree: Tree, bases: list[Any], i: int, j: int) -> Any:
        """Return the epilogue's value for row i and column vector j."""
        b, e = self.b, self.elements
        match tree:
            case "acc":
                return self.sums[i * self.shape.vectors + j]
            case int() if self.places[tree][1]:
                return e.load(self.place(bases, tree, i, j))
            case int():
                return e.splat(b.load(self.place(bases, tree, i, j), align=4))
            case float():
                return e.constant(tree)
            case ("max" | "min" as name, x, float() as limit):  # keeps NaN, in one instruction
                value, bound = self.value(x, bases, i, j), e.constant(limit)
                beyond = b.fcmp_ordered(">" if name == "max" else "<", bound, value)
                return b.select(beyond, bound, value)
            case (name, x, y):
                pair = [self.value(x, bases, i, j), self.value(y, bases, i, j)]
                if name in ("max", "min"):
                    return b.call(e.overloaded(f"{name}imum", 2), pair)
                return e.operation(name, *pair)
        raise AssertionError(tree)
