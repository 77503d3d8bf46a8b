"""Softmax and the product behind it a block of the row at a time: no task keeps the whole row.

m[i] = max[j] s[i, j];  e = exp(s - m);  l[i] = sum[j] e;  p = e / l;  y[i, d] = sum[j] p v[j, d]
->  for each block b of the row:
        m[b, i] = max s;  e[i, j] = exp(s - m[b, i]);  l[b, i] = sum e;  o[b, i, d] = sum e v
    w[b, i] = exp(m[b, i] - max[b] m);  y[i, d] = (sum[b] w o[b, i, d]) / (sum[b] w l)

The sums of the blocks are rescaled once, at the end, and the division is done for a row of results
and not for the row of scores (Milakov and Gimelshein 2018, Online normalizer calculation for
softmax; Dao and others 2022, FlashAttention).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
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
from explorer.ir.patterns.contraction import contraction
from explorer.ir.program import Program
from explorer.ir.shapes.dims import whole
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.ranges import Switch, Whole, check, option
from explorer.passes.pipeline.registry import compiler_pass

BLOCK_COLUMNS, LEAST_COLUMNS = 256, 512  # columns of a block, and of a row that is worth blocks
MOST_COLUMNS = 1 << 20  # of a block, that can be asked for; chosen


@dataclass(frozen=True, slots=True)
class Softmax:
    """Where a kernel has a softmax and a product behind it, by the positions of the computes.

    `scores`: those that make the scores, the last one of them what the maximum is of.
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
    """After: softmaxes in front of products iterate over their rows in blocks of `block` columns;
    0: where and as `policy` says. Nothing changes where it is not `enabled`.
    """

    enabled: bool = option(True, Switch(), "softmax in front of a product in one pass over its row")
    block: int = option(0, Whole(0, MOST_COLUMNS), "columns of a block; 0: as the policy says")

    def __post_init__(self) -> None:
        check("softmax", self)

    def __call__(self, program: Program) -> Program:
        """The program with its kernels rewritten."""
        for function in program.functions:
            body = tuple(
                replace(b, expr=replace(b.expr, kernel=self.left(b.expr.kernel)))
                if isinstance(b.expr, KernelCall)
                else b
                for b in function.body
            )
            program = program.with_function(replace(function, body=body))
        return program

    def left(self, kernel: Kernel) -> Kernel:
        """The kernel as the pass leaves it."""
        return self.rewritten(kernel) if self.enabled else kernel

    def rewritten(self, kernel: Kernel) -> Kernel:
        """The kernel in blocks; itself where there is no such softmax, or blocks do not pay."""
        found = softmax_of(kernel)
        if found is None:
            return kernel
        size = self.block or next(policy(kernel, found)).value
        columns = kernel.computes[found.product].reduce[0].extent
        if not size or not isinstance(columns, int) or columns % size or columns == size:
            return kernel
        return in_blocks(kernel, found, size)


def policy(kernel: Kernel, found: Softmax) -> Iterator[Candidate[int]]:
    """Whole rows or blocks, best first.

    Measured with one thread, heads of 64, in GFLOP/s, whole rows then blocks of 256: 194 and 189 at
    128 columns, 186 and 198 at 512, 184 and 198 at 2,048, 177 and 199 at 8,192.
    """
    columns = kernel.computes[found.product].reduce[0].extent
    whole, label = Candidate("whole rows", 0), f"blocks of {BLOCK_COLUMNS}"
    if not isinstance(columns, int):
        why = "how many columns there are is known in a run only"
    elif columns < LEAST_COLUMNS:
        why = f"{columns} columns of a task's rows lie in L2, and blocks cost a second pass"
    elif columns % BLOCK_COLUMNS:
        why = f"{columns} columns are no blocks of {BLOCK_COLUMNS}"
    else:
        yield Candidate(label, BLOCK_COLUMNS)
        yield whole
        return
    yield whole
    yield Candidate(label, BLOCK_COLUMNS, refused=why)


def softmax_of(kernel: Kernel) -> Softmax | None:
    """The softmax whose one reader is a product, found by its structure."""
    for n, c in enumerate(kernel.computes):
        if contraction(c) is None or len(c.reduce) != 1:
            continue
        for read in reads(c.expr):
            shares = _writer(kernel, read.tensor)
            found = None if shares is None else _chain(kernel, n, shares)
            if found is not None and read.index[-1] == var(c.reduce[0].name):
                return found
    return None


def _chain(kernel: Kernel, product: int, shares: int) -> Softmax | None:
    """From the product back: shares of a total of powers of scores less their maximum."""
    match kernel.computes[shares].expr:
        case Apply("mul", (Read() as e, Apply("div", (Const(value=1.0), Read() as l)))):
            pass
        case Apply("div", (Read() as e, Read() as l)):
            pass
        case _:
            return None
    powers, total = _writer(kernel, e.tensor), _writer(kernel, l.tensor)
    if powers is None or total is None or not _folds(kernel.computes[total], e.tensor, "sum"):
        return None
    match kernel.computes[powers].expr:
        case Apply("exp", (Apply("sub", (Read() as s, Read() as m)),)):
            top = _writer(kernel, m.tensor)
        case _:
            return None
    if top is None or not _folds(kernel.computes[top], s.tensor, "max"):
        return None
    scores = _producers(kernel, s.tensor)
    users = {s.tensor: {top, powers}, e.tensor: {total, shares}, m.tensor: {powers}}
    users |= {l.tensor: {shares}, kernel.computes[shares].out: {product}}
    plain = (scores[-1], top, powers, total, shares) if scores else ()
    good = all(_users(kernel, t) == u for t, u in users.items())
    if not scores or not good or not all(kernel.computes[n].is_plain for n in plain):
        return None
    return Softmax(scores, top, powers, total, shares, product)


def _writer(kernel: Kernel, tensor: str) -> int | None:
    found = [n for n, c in enumerate(kernel.computes) if c.out == tensor]
    return found[0] if len(found) == 1 and tensor not in kernel.outputs else None


def _users(kernel: Kernel, tensor: str) -> set[int]:
    return {
        n for n, c in enumerate(kernel.computes) if any(r.tensor == tensor for r in reads(c.expr))
    }


def _folds(c: Compute, tensor: str, combiner: str) -> bool:
    """A reduction of a tensor's rows, along its last dim."""
    axes = (*c.axes, *c.reduce)
    index = tuple(var(a.name) for a in axes)
    return c.combiner == combiner and len(c.reduce) == 1 and c.expr == Read(tensor, index)


def _producers(kernel: Kernel, tensor: str) -> tuple[int, ...]:
    """What makes the scores column by column and has no other use, the first one a product."""
    found: list[int] = []
    while True:
        n = _writer(kernel, tensor)
        if n is None or not kernel.computes[n].is_plain:
            return ()
        found.insert(0, n)
        c = kernel.computes[n]
        if contraction(c) is not None:
            return tuple(found)
        own = tuple(var(a.name) for a in c.axes)
        inner = [r for r in reads(c.expr) if _writer(kernel, r.tensor) is not None]
        if len({r.tensor for r in inner}) != 1 or any(r.index != own for r in inner):
            return ()
        tensor = inner[0].tensor
        if _users(kernel, tensor) != {n}:
            return ()


def in_blocks(kernel: Kernel, found: Softmax, size: int) -> Kernel:
    """The kernel with its softmax a block of `size` columns at a time; the columns must divide."""
    return _Blocks(kernel, found, size).kernel()


class _Blocks:
    """The new computes of one softmax."""

    def __init__(self, kernel: Kernel, found: Softmax, size: int) -> None:
        self.old, self.found, self.size = kernel, found, size
        self.dtype = kernel.dtype(kernel.computes[found.top].out)
        columns = whole(kernel.computes[found.product].reduce[0].extent)
        assert columns % size == 0, "the blocks must divide the row"
        self.block = Axis("block", columns // size)
        self.names = {t.name for t in kernel.tensors}
        self.specs: list[TensorSpec] = []

    def kernel(self) -> Kernel:
        old, f = self.old, self.found
        gone = {*f.scores, f.top, f.powers, f.total, f.shares, f.product}
        dropped = {old.computes[n].out for n in gone} - {old.computes[f.product].out}
        new = (*self.scores(), *self.softmax(), *self.joined())
        before = tuple(c for n, c in enumerate(old.computes) if n < f.product and n not in gone)
        after = tuple(c for n, c in enumerate(old.computes) if n > f.product)
        kept = tuple(t for t in old.tensors if t.name not in dropped)
        return replace(old, computes=(*before, *new, *after), tensors=(*kept, *self.specs))

    def tensor(self, name: str, axes: Sequence[Axis]) -> str:
        made = fresh(name, self.names)
        self.names.add(made)
        self.specs.append(TensorSpec(made, tuple(a.extent for a in axes), self.dtype))
        return made

    def finite(self, top: Read) -> Expr:
        """A maximum of scores, or the least finite number where all of them are -inf."""
        lowest = float(np.finfo(self.dtype).min)
        return Apply("max", (top, Const(lowest, self.dtype)))

    def scores(self) -> list[Compute]:
        """The scores with their last axis cut: [block, ..., column in the block]."""
        out: list[Compute] = []
        renamed: dict[str, str] = {}
        for n in self.found.scores:
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
        self.made = out[-1].out
        return out

    def column(self, last: Axis) -> Affine:
        return var(self.block.name) * self.size + var(last.name)

    def softmax(self) -> list[Compute]:
        """Of each block: its maximum, which is finite, the powers, their sum, and the product."""
        old, f = self.old, self.found
        top, product = old.computes[f.top], old.computes[f.product]
        rows, r = (self.block, *top.axes), Axis(top.reduce[0].name, self.size)
        row = tuple(var(a.name) for a in rows)
        at = (*row, var(r.name))
        s = Read(self.made, at)
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
        """The sums of one block, not yet divided."""
        shares = self.old.computes[self.found.shares].out
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

    def joined(self) -> list[Compute]:
        """The blocks as one: rescaled to the largest maximum, added, and divided once."""
        lead, block, c = self.rows[1:], self.block, self.old.computes[self.found.product]
        row, at = tuple(var(a.name) for a in lead), tuple(var(a.name) for a in self.rows)
        best, weight = self.tensor("best", lead), self.tensor("weight", self.rows)
        whole = self.tensor("whole", lead)
        finite = self.finite(Read(self.top, at))
        w = Apply("exp", (Apply("sub", (finite, Read(best, row))),))
        part = Apply("mul", (Read(weight, at), Read(self.total, at)))
        read = next(
            r for r in reads(c.expr) if r.tensor == self.old.computes[self.found.shares].out
        )
        here = read.index[:-1]
        own = tuple(var(a.name) for a in c.axes)
        scaled = Apply(
            "mul",
            (
                Read(self.sums, (var(block.name), *own)),
                Apply("div", (Read(weight, (var(block.name), *here)), Read(whole, here))),
            ),
        )
        return [
            Compute(best, lead, finite, (block,), "max", origin=c.origin),
            Compute(weight, self.rows, w, origin=c.origin),
            Compute(whole, lead, part, (block,), "sum", origin=c.origin),
            replace(c, expr=scaled, reduce=(block,)),
        ]
