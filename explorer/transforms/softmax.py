"""Online softmax: a softmax and the product behind it, a block of the row at a time.

    m[i] = max[j] s[i, j];  e = exp(s - m);  l[i] = sum[j] e;  p = e / l
    y[i, d] = sum[j] p v[j, d]
->  for each block b of the row:
        m[b, i] = max s;  e[i, j] = exp(s - m[b, i]);  l[b, i] = sum e;  o[b, i, d] = sum e v
    w[b, i] = exp(m[b, i] - max[b] m);  y[i, d] = (sum[b] w o[b, i, d]) / (sum[b] w l)

No task stores a full row. The sums of the blocks are rescaled once, at the end, and the division is
done for a row of results instead of the row of scores (Milakov and Gimelshein 2018, Online
normalizer calculation for softmax; Dao and others 2022, FlashAttention). Fusion decisions made
before the rewrite price kernels as they are after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.dims import ShapeEnv, concrete_dim
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    reads,
    rewrite,
    substitute,
)
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Program, fresh
from explorer.passes.ranges import Integer, Switch, check, option
from explorer.passes.registry import compiler_pass

BLOCK_COLUMNS, LEAST_COLUMNS = 256, 512  # columns of a block, and least columns of a row in blocks
MOST_COLUMNS = 1 << 20  # largest `block`; chosen


@dataclass(frozen=True, slots=True)
class Softmax:
    """Positions of the computes of a softmax and of the product behind it.

    `scores`: the computes of the scores; the maximum is taken over the last of them.
    """

    scores: tuple[int, ...]
    top: int
    powers: int
    total: int
    shares: int
    product: int


@compiler_pass("online-softmax", paper="Dao and others, FlashAttention, NeurIPS 2022")
@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """A pass that computes softmaxes in front of products in blocks of `block` columns.

    `block` 0: as `policy` decides. Programs stay unchanged if it is not `enabled`.
    """

    enabled: bool = option(True, Switch(), "softmax in front of a product in one pass over its row")
    block: int = option(0, Integer(0, MOST_COLUMNS), "columns of a block; 0: as the policy says")

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        check("softmax", self)

    def __call__(self, program: Program) -> Program:
        """Rewrite the kernels of a program."""
        for function in program.functions:
            body = tuple(
                replace(b, expr=replace(b.expr, kernel=self.apply(b.expr.kernel)))
                if isinstance(b.expr, KernelCall)
                else b
                for b in function.body
            )
            program = program.with_function(replace(function, body=body))
        return program

    def apply(self, kernel: Kernel) -> Kernel:
        """Return the kernel after the pass: rewritten if the pass is enabled."""
        return self.rewritten(kernel) if self.enabled else kernel

    def rewritten(self, kernel: Kernel) -> Kernel:
        """Return the kernel in blocks, or unchanged if it has no softmax or blocks do not pay."""
        softmax = softmax_of(kernel)
        if softmax is None:
            return kernel
        size = self.block or next(policy(kernel, softmax)).value
        columns = kernel.computes[softmax.product].reduce[0].extent
        if not size or not isinstance(columns, int) or columns % size or columns == size:
            return kernel
        return in_blocks(kernel, softmax, size)


def policy(kernel: Kernel, softmax: Softmax) -> Iterator[Candidate[int]]:
    """Yield full rows or blocks, best first.

    Measured with one thread, heads of 64, in GFLOP/s, full rows then blocks of 256: 194 and 189 at
    128 columns, 186 and 198 at 512, 184 and 198 at 2,048, 177 and 199 at 8,192.
    """
    columns = kernel.computes[softmax.product].reduce[0].extent
    full_rows, label = Candidate("whole rows", 0), f"blocks of {BLOCK_COLUMNS}"
    if not isinstance(columns, int):
        why = "the number of columns is symbolic"
    elif columns < LEAST_COLUMNS:
        why = f"{columns} columns of a task's rows lie in L2, and blocks cost a second pass"
    elif columns % BLOCK_COLUMNS:
        why = f"{columns} columns are no multiple of {BLOCK_COLUMNS}"
    else:
        yield Candidate(label, BLOCK_COLUMNS)
        yield full_rows
        return
    yield full_rows
    yield Candidate(label, BLOCK_COLUMNS, refused=why)


def softmax_of(kernel: Kernel) -> Softmax | None:
    """Match a softmax whose only reader is a product, by its structure."""
    for n, c in enumerate(kernel.computes):
        if contraction(c) is None or len(c.reduce) != 1:
            continue
        for read in reads(c.expr):
            shares = _find_writer(kernel, read.tensor)
            match = None if shares is None else _match_chain(kernel, n, shares)
            if match is not None and read.index[-1] == var(c.reduce[0].name):
                return match
    return None


def _match_chain(kernel: Kernel, product: int, shares: int) -> Softmax | None:
    """Match backwards from the product: shares of a total of powers of shifted scores."""
    match kernel.computes[shares].expr:
        case Apply("mul", (Read() as e, Apply("div", (Const(value=1.0), Read() as l)))):
            pass
        case Apply("div", (Read() as e, Read() as l)):
            pass
        case _:
            return None
    powers, total = _find_writer(kernel, e.tensor), _find_writer(kernel, l.tensor)
    if (
        powers is None
        or total is None
        or not _is_row_reduction(kernel.computes[total], e.tensor, "sum")
    ):
        return None
    match kernel.computes[powers].expr:
        case Apply("exp", (Apply("sub", (Read() as s, Read() as m)),)):
            top = _find_writer(kernel, m.tensor)
        case _:
            return None
    if top is None or not _is_row_reduction(kernel.computes[top], s.tensor, "max"):
        return None
    scores = _find_producers(kernel, s.tensor)
    users = {s.tensor: {top, powers}, e.tensor: {total, shares}, m.tensor: {powers}}
    users |= {l.tensor: {shares}, kernel.computes[shares].out: {product}}
    plain = (scores[-1], top, powers, total, shares) if scores else ()
    good = all(_find_readers(kernel, t) == u for t, u in users.items())
    if not scores or not good or not all(kernel.computes[n].is_plain for n in plain):
        return None
    return Softmax(scores, top, powers, total, shares, product)


def _find_writer(kernel: Kernel, tensor: str) -> int | None:
    writers = [n for n, c in enumerate(kernel.computes) if c.out == tensor]
    return writers[0] if len(writers) == 1 and tensor not in kernel.outputs else None


def _find_readers(kernel: Kernel, tensor: str) -> set[int]:
    return {
        n for n, c in enumerate(kernel.computes) if any(r.tensor == tensor for r in reads(c.expr))
    }


def _is_row_reduction(c: Compute, tensor: str, combiner: str) -> bool:
    """Return True if a compute reduces a tensor along its last dim."""
    axes = (*c.axes, *c.reduce)
    index = tuple(var(a.name) for a in axes)
    return c.combiner == combiner and len(c.reduce) == 1 and c.expr == Read(tensor, index)


def _find_producers(kernel: Kernel, tensor: str) -> tuple[int, ...]:
    """Return the computes of the scores, which have no other use; the first is a product."""
    producers: list[int] = []
    while True:
        n = _find_writer(kernel, tensor)
        if n is None or not kernel.computes[n].is_plain:
            return ()
        producers.insert(0, n)
        c = kernel.computes[n]
        if contraction(c) is not None:
            return tuple(producers)
        own = tuple(var(a.name) for a in c.axes)
        inner = [r for r in reads(c.expr) if _find_writer(kernel, r.tensor) is not None]
        if len({r.tensor for r in inner}) != 1 or any(r.index != own for r in inner):
            return ()
        tensor = inner[0].tensor
        if _find_readers(kernel, tensor) != {n}:
            return ()


def in_blocks(kernel: Kernel, softmax: Softmax, size: int) -> Kernel:
    """Compute the softmax in blocks of `size` columns, which must divide the row."""
    return _Blocks(kernel, softmax, size).kernel()


class _Blocks:
    """The new computes of one softmax."""

    def __init__(self, kernel: Kernel, match: Softmax, size: int) -> None:
        """Prepare the softmax `match` of a kernel."""
        self.old, self.match, self.size = kernel, match, size
        self.dtype = kernel.dtype(kernel.computes[match.top].out)
        columns = concrete_dim(kernel.computes[match.product].reduce[0].extent)
        assert columns % size == 0, "the blocks must divide the row"
        self.block = Axis("block", columns // size)
        self.names = {t.name for t in kernel.tensors}
        self.specs: list[TensorSpec] = []

    def kernel(self) -> Kernel:
        """Return the rewritten kernel."""
        old, f = self.old, self.match
        gone = {*f.scores, f.top, f.powers, f.total, f.shares, f.product}
        dropped = {old.computes[n].out for n in gone} - {old.computes[f.product].out}
        new = (*self.scores(), *self.softmax(), *self.combine())
        before = tuple(c for n, c in enumerate(old.computes) if n < f.product and n not in gone)
        after = tuple(c for n, c in enumerate(old.computes) if n > f.product)
        remaining = tuple(t for t in old.tensors if t.name not in dropped)
        return replace(old, computes=(*before, *new, *after), tensors=(*remaining, *self.specs))

    def tensor(self, name: str, axes: Sequence[Axis]) -> str:
        """Declare a fresh tensor and return its name."""
        unique = fresh(name, self.names)
        self.names.add(unique)
        self.specs.append(TensorSpec(unique, tuple(a.extent for a in axes), self.dtype))
        return unique

    def finite(self, top: Read) -> Expr:
        """Return a maximum of scores, or the least finite number if all of them are -inf."""
        lowest = float(np.finfo(self.dtype).min)
        return Apply("max", (top, Const(lowest, self.dtype)))

    def scores(self) -> list[Compute]:
        """Build the scores with their last axis split: [block, ..., column in the block]."""
        out: list[Compute] = []
        renamed: dict[str, str] = {}
        for n in self.match.scores:
            c = self.old.computes[n]
            last = c.axes[-1]
            axes = (self.block, *c.axes[:-1], Axis(last.name, self.size))
            name = self.tensor(c.out, axes)
            moved = substitute(c.expr, {last.name: self.column(last)})

            def leaf(read: Read, c: Compute = c) -> Expr:
                if read.tensor not in renamed:
                    return read
                own = tuple(var(a.name) for a in c.axes)
                return Read(renamed[read.tensor], (var(self.block.name), *own))

            out.append(replace(c, out=name, axes=axes, expr=rewrite(moved, leaf), store=()))
            renamed[c.out] = name
        self.score_tensor = out[-1].out
        return out

    def column(self, last: Axis) -> Affine:
        """Return the index of a block's column in the row."""
        return var(self.block.name) * self.size + var(last.name)

    def softmax(self) -> list[Compute]:
        """Build each block's finite maximum, its powers, their sum, and the product."""
        old, f = self.old, self.match
        top, product = old.computes[f.top], old.computes[f.product]
        rows, r = (self.block, *top.axes), Axis(top.reduce[0].name, self.size)
        row = tuple(var(a.name) for a in rows)
        at = (*row, var(r.name))
        s = Read(self.score_tensor, at)
        self.rows = rows
        self.top = self.tensor("top", rows)
        self.powers = self.tensor("powers", (*rows, r))
        self.total = self.tensor("total", rows)
        e = Apply("exp", (Apply("sub", (s, self.finite(Read(self.top, row)))),))
        origin = top.origin
        return [
            Compute(self.top, rows, s, (r,), "max", origin=origin),
            Compute(self.powers, (*rows, r), e, origin=origin),
            Compute(self.total, rows, Read(self.powers, at), (r,), "sum", origin=origin),
            self.product(product),
        ]

    def product(self, c: Compute) -> Compute:
        """Build the sums of one block, before the division."""
        shares = self.old.computes[self.match.shares].out
        depth = Axis(c.reduce[0].name, self.size)
        moved = {depth.name: self.column(depth)}

        def leaf(read: Read) -> Expr:
            if read.tensor != shares:
                return substitute(read, moved)
            return Read(self.powers, (var(self.block.name), *read.index))

        axes = (self.block, *c.axes)
        self.sums = self.tensor("sums", axes)
        return replace(
            c, out=self.sums, axes=axes, reduce=(depth,), expr=rewrite(c.expr, leaf), store=()
        )

    def combine(self) -> list[Compute]:
        """Combine the blocks: rescale to the largest maximum, add, and divide once."""
        lead, block, c = self.rows[1:], self.block, self.old.computes[self.match.product]
        row, at = tuple(var(a.name) for a in lead), tuple(var(a.name) for a in self.rows)
        best, weight = self.tensor("best", lead), self.tensor("weight", self.rows)
        row_total = self.tensor("whole", lead)
        finite = self.finite(Read(self.top, at))
        w = Apply("exp", (Apply("sub", (finite, Read(best, row))),))
        part = Apply("mul", (Read(weight, at), Read(self.total, at)))
        read = next(
            r for r in reads(c.expr) if r.tensor == self.old.computes[self.match.shares].out
        )
        here = read.index[:-1]
        own = tuple(var(a.name) for a in c.axes)
        scaled = Apply(
            "mul",
            (
                Read(self.sums, (var(block.name), *own)),
                Apply("div", (Read(weight, (var(block.name), *here)), Read(row_total, here))),
            ),
        )
        return [
            Compute(best, lead, finite, (block,), "max", origin=c.origin),
            Compute(weight, self.rows, w, origin=c.origin),
            Compute(row_total, lead, part, (block,), "sum", origin=c.origin),
            replace(c, expr=scaled, reduce=(block,)),
        ]


Cut = tuple[tuple[str, int], ...]  # tile sizes by axis


class Price(Protocol):
    """Modelled microseconds of a kernel, at its best tiling or within a given tile."""

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds at the best tiling."""

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds within a given tile."""

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling within a given tile is legal, "" if one is."""


@dataclass(frozen=True, slots=True)
class PriceInBlocks:
    """A price of kernels after the rewrite by `softmax`."""

    price: Price
    softmax: OnlineSoftmax

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds at the best tiling of the rewritten kernel."""
        return self.price(self.softmax.apply(kernel), env)

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds within a given tile."""
        return self.price.tiled(kernel, env, cut)

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling within a given tile is legal, "" if one is."""
        return self.price.allows(kernel, env, cut)
