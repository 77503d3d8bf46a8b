"""The meaning of a tile program, in NumPy, one task at a time; every address is checked against its
buffer.

Scratch starts as NaN, so that a read before a write shows. Run before code is emitted where
`check=True`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from explorer.codegen.build import pack_constant
from explorer.errors import CheckFailed
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.dtypes import as_computed, is_float, numpy_dtype
from explorer.ir.forms import group_of
from explorer.ir.kernel import Affine, Const, IndexValue
from explorer.ir.tile_program import (
    Buffer,
    Contract,
    Do,
    Fetch,
    Fill,
    For,
    Load,
    Map,
    OnePass,
    Pack,
    Panels,
    Reduce,
    Scan,
    Span,
    Statement,
    TileExpr,
    TileProgram,
)
from explorer.ops.scalar import call, identity, number

Env = dict[str, Any]
RUNNING: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
COMBINE: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


class Interpreter:
    """Runs tasks of one tile program over flat arrays by buffer name."""

    def __init__(
        self, program: TileProgram, arrays: Mapping[str, np.ndarray], sizes: Sizes
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.arrays = {n: np.ravel(a) for n, a in arrays.items()}
        for q in program.packings:
            self.arrays[q.name] = pack_constant(q, arrays[q.source])

    def run(self) -> None:
        """Every task, in order; the outputs are written in place."""
        counts = [self.dim(g.count) for g in self.program.grid]
        for task in np.ndindex(*counts):
            for b in self.program.buffers:
                if b.kind == "scratch":
                    poison = np.nan if is_float(b.dtype) else 0
                    room = np.zeros(self.dim(b.size), numpy_dtype(b.dtype))
                    room[:] = poison
                    self.arrays[b.name] = room
            env: Env = {
                g.variable: t * g.tile for g, t in zip(self.program.grid, task, strict=True)
            }
            for s in self.program.body:
                self.statement(s, env)

    def dim(self, d: Dim) -> int:
        """A dim under the binding."""
        return evaluate_dim(d, self.sizes)

    def affine(self, a: Affine, env: Env) -> Any:
        """An affine value, for arrays of the variables."""
        total: Any = self.dim(a.const)
        for name, factor in a.terms:
            total = total + env[name] * self.dim(factor)
        return total

    def values(self, s: Span, env: Env) -> np.ndarray:
        """What an axis runs over."""
        lo = self.affine(s.base, env)
        hi = lo + self.dim(s.size)
        first = max(lo, 0) if s.clip_low else lo
        return np.arange(first, min(hi, self.dim(s.extent)) if s.clip_high else hi)

    def points(self, spans: tuple[Span, ...], env: Env) -> Env:
        """Every point of the spans."""
        axes = np.meshgrid(*(self.values(s, env) for s in spans), indexing="ij")
        return env | {s.axis: a for s, a in zip(spans, axes, strict=True)}

    def where(self, f: Fetch, env: Env) -> tuple[np.ndarray, Any]:
        """The array of a load and the offsets in it."""
        flat = self.arrays[f.buffer.name]
        offset = np.asarray(self.affine(f.offset, env))
        for index, stride, extent in f.dynamic:
            at = np.clip(self.value(index, env), 0, self.dim(extent) - 1)
            offset = offset + at * self.dim(stride)
        if offset.size and (offset.min() < 0 or offset.max() >= flat.size):
            raise CheckFailed(
                f"a tile program leaves {f.buffer.name}: offsets {offset.min()} to {offset.max()}, "
                f"elements {flat.size}",
                where=f.buffer.name,
            )
        return flat, offset

    def value(self, expr: TileExpr, env: Env) -> Any:
        """A scalar expression at every point."""
        match expr:
            case Fetch():
                flat, offset = self.where(expr, env)
                return as_computed(flat[offset])
            case Const(value, dtype):
                return number(value, dtype, self.sizes)
            case IndexValue(index):
                return np.asarray(self.affine(index, env), np.int64)
            case Do(op, args):
                return call(op, [self.value(a, env) for a in args])

    def put(self, f: Fetch, env: Env, value: Any) -> None:
        """Store at every point."""
        flat, offset = self.where(f, env)
        flat[offset] = value

    def statement(self, s: Statement, env: Env) -> None:
        """One statement."""
        match s:
            case For(span, body):
                for v in self.values(span, env):
                    for inner in body:
                        self.statement(inner, env | {span.axis: int(v)})
            case Fill(target, value):
                self.arrays[target.name][:] = value
            case Load(target, source, spans):
                e = self.points(spans, env)
                self.put(target, e, self.value(source, e))
            case Pack():
                self.pack(s, env)
            case Map(target, spans, expr):
                e = self.points(spans, env)
                self.put(target, e, self.value(expr, e))
            case Reduce(target, spans, over, combiner, expr, dtype):
                e = self.points((*spans, *over), env)
                shape = [len(self.values(x, env)) for x in (*spans, *over)]
                full = np.broadcast_to(self.value(expr, e), shape)
                axes = tuple(range(len(spans), len(shape)))
                initial = {"initial": -np.inf} if combiner == "max" and not full.size else {}
                self.put(
                    target,
                    self.points(spans, env),
                    COMBINE[combiner](full, axis=axes, **initial).astype(numpy_dtype(dtype)),
                )
            case Scan():
                self.scan(s, env)
            case OnePass(parts):
                for part in parts:
                    self.statement(part, env)
            case Panels():
                self.panels(s, env)

    def scan(self, s: Scan, env: Env) -> None:
        """A running fold along the last axis of the points."""
        spans = (*s.spans, s.over)
        e, count = self.points(spans, env), len(self.values(s.over, env))
        shape = [len(self.values(x, env)) for x in spans]
        full = np.array(np.broadcast_to(self.value(s.expr, e), shape))
        full = full[..., ::-1] if s.backwards else full
        so_far = RUNNING[s.combiner].accumulate(full, axis=-1) if count else full
        if s.exclusive and count:
            so_far = np.roll(so_far, 1, -1)
            so_far[..., 0] = identity(s.combiner, s.dtype)
        self.put(s.target, e, so_far[..., ::-1] if s.backwards else so_far)

    def pack(self, s: Pack, env: Env) -> None:
        """Columns as panels."""
        e = self.points((s.columns, *s.depth), env)
        shape = [len(self.values(x, env)) for x in (s.columns, *s.depth)]
        value = np.broadcast_to(self.value(s.source, e), shape)
        rows, group = -(-self.dim(s.columns.size) // s.lanes) * s.lanes, s.group
        last = -(-shape[-1] // group) * group
        whole = np.zeros((rows, *shape[1:-1], last), numpy_dtype(s.target.dtype))
        whole[: shape[0], ..., : shape[-1]] = value
        grouped = whole.reshape(-1, s.lanes, prod(shape[1:-1]) * last // group, group)
        panels = grouped.swapaxes(1, 2).ravel()
        self.arrays[s.target.name][: panels.size] = panels

    def panels(self, s: Panels, env: Env) -> None:
        """Register tiles over the rows and columns."""
        grid = self.points(s.rows, env)
        row = {x.axis: np.ravel(grid[x.axis]) for x in s.rows}
        count = len(next(iter(row.values())))
        js = self.values(s.columns, env)
        for j in range(js[0], js[-1] + 1, s.micro.columns) if len(js) else ():
            n = np.arange(j, min(j + s.micro.columns, js[-1] + 1))
            for i in range(0, count, s.micro.rows):
                here = {k: v[i : i + s.micro.rows, None] for k, v in row.items()}
                height = np.arange(min(s.micro.rows, count - i))[:, None]
                e = env | here | {"_j": j, "_r": height, s.columns.axis: n[None, :]}
                self.contract(s.contract, s.micro.columns, e, len(height))
                self.put(s.epilogue.target, e, self.value(s.epilogue.expr, e))

    def contract(self, c: Contract, lanes: int, env: Env, rows: int) -> None:
        """One register tile."""
        steps = np.arange(self.dim(c.depth))
        group = group_of(c.a.buffer.dtype)
        each = np.arange(group)
        along = (np.asarray(c.segment_values)[:, None] + steps * c.a_step).ravel()
        down = np.arange(len(along))[:, None, None] * c.b_step + each[:, None]
        down = (down + np.arange(lanes) * group).reshape(-1, lanes)
        along = (along[:, None] + each).ravel()
        (a, a_at), (b, b_at) = self.where(c.a, env), self.where(c.b, env)
        start = np.broadcast_to(a_at.reshape(-1, 1) if a_at.ndim else a_at, (rows, 1))
        a_index, b_index = start + along, np.ravel(b_at)[0] + down
        self.check(c.a.buffer, a, a_index)
        self.check(c.b.buffer, b, b_index)
        total = numpy_dtype(c.acc.dtype)
        acc = a[a_index].astype(total) @ b[b_index].astype(total)
        self.arrays[c.acc.name][: acc.size] = acc.ravel()

    def check(self, buffer: Buffer, flat: np.ndarray, index: np.ndarray) -> None:
        """Every address of a micro-kernel lies in its buffer."""
        if index.size and (index.min() < 0 or index.max() >= flat.size):
            raise CheckFailed(
                f"a micro-kernel leaves {buffer.name}: offsets {index.min()} to {index.max()}, "
                f"elements {flat.size}",
                where=buffer.name,
            )
