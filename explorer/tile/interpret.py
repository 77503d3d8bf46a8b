"""An interpreter of tile programs in NumPy, one task at a time, with bounds checks.

Scratch starts as NaN, so that a read before a write shows. The threads of a block run in a random
order from one `Sync` to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from explorer.errors import CheckFailed
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.dtypes import as_computed, is_float, numpy_dtype
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.kernels.forms import Form, from_cells
from explorer.ir.tile_program import (
    REGISTER,
    At,
    Buffer,
    Contract,
    Do,
    Fetch,
    Fill,
    Find,
    For,
    Load,
    Map,
    Once,
    OnePass,
    Pack,
    Panels,
    Reduce,
    Scan,
    Shuffle,
    Span,
    Statement,
    Sync,
    TileExpr,
    TileProgram,
    Window,
)
from explorer.ir.tile_traversal import threads_of, with_loads, writes
from explorer.ops.interpreter.scalar import call, identity, number
from explorer.tile.lowering.packing import pack_constant
from explorer.tile.rewriting.register_tiles import operands_in_table
from explorer.tile.thread_order import Env, ThreadBlock

TASKS_IN_A_ROW = 3  # of one worker; chosen
REDUCED = "_reduced"  # the reduced value of a window


class Interpreter:
    """An interpreter of one tile program over flat arrays by buffer name.

    `seed` is of the order of threads.
    """

    def __init__(
        self, program: TileProgram, arrays: Mapping[str, np.ndarray], sizes: Sizes, seed: int = 0
    ) -> None:
        """Create an interpreter; packed constants are computed here."""
        self.program = program
        self.sizes = sizes
        self.order = np.random.default_rng(seed)
        self.is_first = True  # the task is its worker's first
        self.arrays = {n: np.ravel(a) for n, a in arrays.items()}
        for q in program.packings:
            self.arrays[q.name] = pack_constant(q, arrays[q.source])

    def run(self) -> None:
        """Run every task, in order, a few by each worker; the outputs are written in place."""
        counts = [self.dim(g.count) for g in self.program.grid]
        shared = {b.name for s in self.program.body if isinstance(s, Once) for b in writes(s)}
        is_block = threads_of(self.program.body) > 0
        for n, task in enumerate(np.ndindex(*counts)):
            self.is_first = n % TASKS_IN_A_ROW == 0
            for b in self.program.buffers:
                if b.kind == "scratch" and (self.is_first or b.name not in shared):
                    self.poison(b)
            env: Env = {
                g.variable: t * g.tile for g, t in zip(self.program.grid, task, strict=True)
            }
            if is_block:
                block = ThreadBlock(self.statement, self.values, self.affine, self.arrays)
                block.run(self.program.body, env, self.registers, self.order)
                continue
            for s in self.program.body:
                self.statement(s, env)

    def poison(self, b: Buffer) -> None:
        """Reset scratch to its state before any write."""
        self.arrays[b.name] = self.poisoned(b)

    def poisoned(self, b: Buffer) -> np.ndarray:
        """Return an unwritten array of a buffer."""
        array = np.zeros(self.dim(b.size), numpy_dtype(b.dtype))
        array[:] = np.nan if is_float(b.dtype) else 0
        return array

    def registers(self) -> dict[str, np.ndarray]:
        """Return the unwritten registers of a thread."""
        return {b.name: self.poisoned(b) for b in self.program.buffers if b.level == REGISTER}

    def once(self, s: Once, env: Env) -> None:
        """Run what the first of several tasks does for all, on poisoned scratch."""
        if not self.is_first and any(env[g.variable] for g in self.program.grid[s.level :]):
            return
        for b in {b.name: b for b in writes(s)}.values():
            self.poison(next(x for x in self.program.buffers if x.name == b.name))
        for inner in s.body:
            self.statement(inner, env)

    def window(self, s: Window, env: Env) -> None:
        """Reduce the part of each window that lies inside, then compute its epilogue."""
        reduction = s.reduction
        spans = (*reduction.spans, *reduction.over)
        e = self.points(spans, env)
        shape = [len(self.values(x, env)) for x in spans]
        in_bounds = np.ones(shape, np.bool_)
        for b in s.borders:
            index = self.affine(b.first, e) + e[b.axis] * b.step
            in_bounds &= np.broadcast_to((index >= 0) & (index < b.extent), shape)
        inside = {x.axis: np.broadcast_to(e[x.axis], shape)[in_bounds] for x in spans}
        value = np.full(shape, identity(reduction.combiner, reduction.dtype))
        part = self.value(s.data, env | inside)
        value[in_bounds] = part if s.weights is None else part * self.value(s.weights, env | inside)
        axes = tuple(range(len(reduction.spans), len(shape)))
        e = self.points(reduction.spans, env)
        e[REDUCED] = COMBINERS[reduction.combiner].numpy.reduce(value, axis=axes)
        epilogue = with_loads(
            s.expr, lambda f: IndexValue(var(REDUCED)) if f == reduction.target else f
        )
        self.store(s.target, e, self.value(epilogue, e))

    def dim(self, d: Dim) -> int:
        """Return a dim under the binding."""
        return evaluate_dim(d, self.sizes)

    def affine(self, a: Affine, env: Env) -> Any:
        """Return an affine value, for arrays of the variables."""
        total: Any = self.dim(a.const)
        for name, factor in a.terms:
            total = total + env[name] * self.dim(factor)
        return total

    def values(self, s: Span, env: Env) -> np.ndarray:
        """Return the values of an axis."""
        lo = self.affine(s.base, env)
        hi = lo + self.dim(s.size)
        first = max(lo, 0) if s.clip_low else lo
        return np.arange(first, min(hi, self.dim(s.extent)) if s.clip_high else hi)

    def points(self, spans: tuple[Span, ...], env: Env) -> Env:
        """Return every point of the spans."""
        axes = np.meshgrid(*(self.values(s, env) for s in spans), indexing="ij")
        return env | {s.axis: a for s, a in zip(spans, axes, strict=True)}

    def where(self, f: Fetch, env: Env) -> tuple[np.ndarray, Any]:
        """Return the array of a load and its offsets, checked against the buffer's size."""
        flat = self.arrays[f.buffer.name]
        offset = np.asarray(self.affine(f.offset, env))
        for index, stride, extent in f.dynamic:
            at = np.clip(self.value(index, env), 0, self.dim(extent) - 1)
            offset = offset + at * self.dim(stride)
        if offset.size and (offset.min() < 0 or offset.max() >= flat.size):
            raise CheckFailed(
                f"{f.buffer.name} is accessed out of bounds: {offset.min()} to {offset.max()}, "
                f"elements {flat.size}",
                where=f.buffer.name,
            )
        return flat, offset

    def value(self, expr: TileExpr, env: Env) -> Any:
        """Return a scalar expression at every point."""
        match expr:
            case Fetch():
                flat, offset = self.where(expr, env)
                return as_computed(flat[offset])
            case Const(value, dtype):
                return number(value, dtype, self.sizes)
            case IndexValue(index) if index.bare == REDUCED:
                return env[REDUCED]
            case IndexValue(index):
                return np.asarray(self.affine(index, env), np.int64)
            case Do(op, args):
                return call(op, [self.value(a, env) for a in args])

    def store(self, f: Fetch, env: Env, value: Any) -> None:
        """Store a value at every point."""
        flat, offset = self.where(f, env)
        if offset.ndim < np.ndim(
            value
        ):  # an element that does not depend on an axis, as in a register
            offset = np.broadcast_to(offset, np.shape(value))
        flat[offset] = value

    def statement(self, s: Statement, env: Env) -> None:
        """Run one statement."""
        match s:
            case For(span, body):
                for v in self.values(span, env):
                    inner_env = env | {span.axis: int(v)}
                    for inner in body:
                        self.statement(inner, inner_env)
            case At(span, index, body):
                value = int(self.value(index, env))
                if value in self.values(span, env):
                    for inner in body:
                        self.statement(inner, env | {span.axis: value})
            case Fill(target, value):
                self.arrays[target.name][:] = value
            case Pack():
                self.pack(s, env)
            case Load(target, expr, spans) | Map(target, spans, expr):
                e = self.points(spans, env)
                self.store(target, e, self.value(expr, e))
            case Reduce(target, spans, over, combiner, expr, dtype):
                e = self.points((*spans, *over), env)
                shape = [len(self.values(x, env)) for x in (*spans, *over)]
                full = np.broadcast_to(self.value(expr, e), shape)
                axes = tuple(range(len(spans), len(shape)))
                none = {} if full.size else {"initial": identity(combiner, dtype)}
                total = COMBINERS[combiner].numpy.reduce(full, axis=axes, **none)
                e = self.points(spans, env)
                if s.onto:
                    total = COMBINERS[combiner].numpy(self.value(target, e), total)
                self.store(target, e, total.astype(numpy_dtype(dtype)))
            case Scan():
                self.scan(s, env)
            case OnePass(parts):
                for part in parts:
                    self.statement(part, env)
            case Once():
                self.once(s, env)
            case Find(name, index, extent):
                at = np.clip(self.value(index, env), 0, self.dim(extent) - 1)
                env[name] = int(at)
            case Sync() | Shuffle():  # a single thread does not wait
                pass
            case Window():
                self.window(s, env)
            case Panels():
                self.panels(s, env)

    def scan(self, s: Scan, env: Env) -> None:
        """Run a running reduction along the last axis of the points."""
        spans = (*s.spans, s.over)
        e, count = self.points(spans, env), len(self.values(s.over, env))
        shape = [len(self.values(x, env)) for x in spans]
        full = np.array(np.broadcast_to(self.value(s.expr, e), shape))
        full = full[..., ::-1] if s.backwards else full
        so_far = COMBINERS[s.combiner].numpy.accumulate(full, axis=-1) if count else full
        if s.exclusive and count:
            so_far = np.roll(so_far, 1, -1)
            so_far[..., 0] = identity(s.combiner, s.dtype)
        self.store(s.target, e, so_far[..., ::-1] if s.backwards else so_far)

    def pack(self, s: Pack, env: Env) -> None:
        """Pack columns into panels."""
        e = self.points((s.columns, *s.depth), env)
        shape = [len(self.values(x, env)) for x in (s.columns, *s.depth)]
        value = np.broadcast_to(self.value(s.source, e), shape)
        rows, group = -(-self.dim(s.columns.size) // s.lanes) * s.lanes, s.group
        last = -(-shape[-1] // group) * group
        padded = np.zeros((rows, *shape[1:-1], last), numpy_dtype(s.target.dtype))
        padded[: shape[0], ..., : shape[-1]] = value
        grouped = padded.reshape(-1, s.lanes, prod(shape[1:-1]) * last // group, group)
        panels = grouped.swapaxes(1, 2).ravel()
        self.arrays[s.target.name][: panels.size] = panels

    def panels(self, s: Panels, env: Env) -> None:
        """Run register tiles over the rows and columns."""
        js = self.values(s.columns, env)
        for j in range(js[0], js[-1] + 1, s.micro.columns) if len(js) else ():
            n = np.arange(j, min(j + s.micro.columns, js[-1] + 1))
            for row_env in self.row_tiles(s, env):
                height = np.arange(len(next(iter(row_env.values()))))[:, None]
                e = env | row_env | {"_j": j, "_r": height, s.columns.axis: n[None, :]}
                is_full = len(height) == s.micro.rows and len(n) == s.micro.columns
                self.steps(s, e, is_full)
                self.contract(s.contract, s.micro.columns, e, len(height))
                self.store(s.epilogue.target, e, self.value(s.epilogue.expr, e))

    def row_tiles(self, s: Panels, env: Env) -> Iterator[Env]:
        """Yield the rows of each register tile, as columns of values of the row axes."""
        grid = self.points(s.rows, env)
        points = {x.axis: grid[x.axis] for x in s.rows}
        if s.run is not None and s.run.outer:
            length = len(self.values(s.rows[-1], env))
            runs = {k: v.reshape(-1, length) for k, v in points.items()}
        else:
            runs = {k: v.reshape(1, -1) for k, v in points.items()}
        number, count = next(iter(runs.values())).shape
        rows, moved = s.micro.rows, s.run is not None and not s.run.exact
        if s.run is not None and count and (count < rows or (s.run.exact and count % rows)):
            raise CheckFailed(f"a run of {count} rows does not divide into tiles of {rows}")
        for n in range(number):
            for i in range(0, count, rows):
                first = min(i, count - rows) if moved else i
                yield {k: v[n, first : first + rows, None] for k, v in runs.items()}

    def steps(self, s: Panels, env: Env, is_full: bool) -> None:
        """Check that rows a tile addresses by its first row and a step are that step apart.

        Without a run of rows, those of the left operand are in the table, and those of operands
        without a constant distance.
        """
        stepped = (s.contract.a,) if s.run is not None else ()
        in_table = operands_in_table(s.operands, s.rows) if s.run is None else ()
        operands = (f for f in s.operands if is_full and f not in in_table)
        for f in (*stepped, *operands):
            at = np.asarray(self.affine(f.offset, env))
            step = self.dim(f.offset.factor(s.rows[-1].axis))
            if at.ndim and np.any(at != at[:1] + step * np.arange(len(at))[:, None]):
                raise CheckFailed(
                    f"rows of {f.buffer.name} are not {step} elements apart", where=f.buffer.name
                )

    def contract(self, c: Contract, lanes: int, env: Env, rows: int) -> None:
        """Run one register tile."""
        steps = np.arange(self.dim(c.depth))
        form = Form(c.a.buffer.dtype, c.b.buffer.dtype, c.acc.dtype)
        along = (np.asarray(c.segment_values)[:, None] + steps * c.a_step).ravel()
        down = np.arange(len(along))[:, None, None] * c.b_step
        down = down + np.arange(lanes)[:, None] * form.cells + np.arange(form.cells)
        along = (along[:, None] + np.arange(form.group)).ravel()
        (a, a_at), (b, b_at) = self.where(c.a, env), self.where(c.b, env)
        start = np.broadcast_to(a_at.reshape(-1, 1) if a_at.ndim else a_at, (rows, 1))
        a_index, b_index = start + along, np.ravel(b_at)[0] + down
        self.check(c.a.buffer, a, a_index)
        self.check(c.b.buffer, b, b_index)
        total = numpy_dtype(c.acc.dtype)
        columns = from_cells(b[b_index], form.right).swapaxes(1, 2).reshape(-1, lanes)
        acc = a[a_index].astype(total) @ columns.astype(total)
        self.arrays[c.acc.name][: acc.size] = acc.ravel()

    def check(self, buffer: Buffer, flat: np.ndarray, index: np.ndarray) -> None:
        """Check that every address of a micro-kernel lies in its buffer."""
        if index.size and (index.min() < 0 or index.max() >= flat.size):
            raise CheckFailed(
                f"a micro-kernel reads {buffer.name} out of bounds: "
                f"{index.min()} to {index.max()}, elements {flat.size}",
                where=buffer.name,
            )
