"""From the kernels of a program to machine code, each different one once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from explorer.codegen.compile_processes import Helpers, Job, compile_jobs
from explorer.codegen.expressions import symbol_name
from explorer.codegen.helper_count import helpers_for
from explorer.codegen.numba_cpu import emit
from explorer.codegen.object_code import MachineCode, compile_cfunc, disassemble, key_of, loaded
from explorer.errors import Cancelled
from explorer.ir.calls import KernelCall
from explorer.ir.canonical import canonical, canonical_symbols, renamed_tiling, with_symbols
from explorer.ir.decisions import Tiling
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_dim, symbol, symbols_of
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Const, IndexValue, Kernel
from explorer.ir.normal import normalise
from explorer.ir.program import Binding, Constant, Program
from explorer.ir.rebase import rebased
from explorer.ir.tile_program import (
    Buffer,
    Do,
    Fetch,
    For,
    Load,
    Map,
    OnePass,
    Pack,
    Packing,
    Panels,
    Reduce,
    Scan,
    Span,
    Statement,
    TileExpr,
    TileProgram,
    fetches,
)
from explorer.ir.types import ITEM_BYTES
from explorer.roller.transform import lower


@dataclass(frozen=True, slots=True)
class Argument:
    """One int64 of a kernel's argument block.

    `kind` is "tensor" (the address of the kernel input or output `name`), "packed" (the address of
    a constant laid out by `pack_constant`), "table" (the address of `values`), "scratch" (the
    address of `elements` items, one block a worker, on a 64-byte border), or "dim" (the value of
    the symbol `name`). A tensor is addressed `offset` elements in.
    """

    kind: str
    name: str
    local: str
    elements: Dim = 0
    item_bytes: int = 0
    values: tuple[int, ...] = ()
    packing: Packing | None = None
    offset: Dim = 0

    def begin_bytes(self, sizes: Sizes) -> int:
        """How far behind the first element of a tensor the address lies."""
        return evaluate_dim(self.offset, sizes) * self.item_bytes


class KernelCode:
    """One compiled kernel, under the tensor names of the kernel call that it was built for."""

    def __init__(
        self,
        source: str,
        machine: MachineCode,
        tile_program: TileProgram,
        arguments: tuple[Argument, ...],
    ) -> None:
        self.source = source
        self.machine = machine
        self.tile_program = tile_program
        self.arguments = arguments

    @property
    def key(self) -> str:
        """The content hash: kernels with the same one share their code."""
        return self.machine.key

    @property
    def address(self) -> int:
        """Where the C function `void kernel(int64 first, int64 last, int64* args)` lies."""
        return self.machine.address

    def tasks(self, sizes: Sizes) -> int:
        """How many tasks there are under a binding."""
        return self.tile_program.tasks(sizes)

    @cached_property
    def _text(self) -> tuple[str, str]:
        return disassemble(self.machine, self.source)

    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return self._text[0]

    def assembly(self) -> str:
        """The machine code in assembly language."""
        return self._text[1]


def pack_constant(packing: Packing, array: np.ndarray) -> np.ndarray:
    """A constant laid out for its micro-kernel: [batch..., columns / lanes, depth, lanes], zeros
    past the last column; small integers in groups along the depth, zeros to the end of the last.

    It begins on a 64-byte border.
    """
    dtype, group = numpy_dtype(packing.dtype), packing.group
    flat = np.ascontiguousarray(array, dtype).reshape(-1)[packing.offset :]
    steps = tuple(s * flat.itemsize for s in packing.strides)
    seen = np.lib.stride_tricks.as_strided(flat, packing.extents, steps, writeable=False)
    lead, columns = packing.extents[: packing.batch], packing.extents[packing.batch]
    inner, lanes = packing.extents[packing.batch + 1 :], packing.lanes
    last, panels = -(-inner[-1] // group) * group, -(-columns // lanes)
    depth, spare = prod(inner[:-1]) * last, 64 // dtype.itemsize
    block = np.zeros(prod(lead) * panels * depth * lanes + spare, dtype)
    start = (-block.ctypes.data % 64) // dtype.itemsize
    flat_out = block[start : start + block.size - spare]
    out = flat_out.reshape(prod(lead), panels, depth // group, lanes, group)
    rows = seen.reshape(prod(lead), columns, *inner)
    for n in range(panels):
        part = rows[:, n * lanes : (n + 1) * lanes]
        if last != inner[-1]:
            part = np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, last - inner[-1])])
        grouped = part.reshape(prod(lead), part.shape[1], depth // group, group)
        out[:, n, :, : part.shape[1]] = grouped.swapaxes(1, 2)
    return flat_out


def packed_constant(packing: Packing, constant: Constant) -> np.ndarray:
    """The laid out constant on a 64-byte border, made once for as long as anybody holds it."""
    layout = replace(packing, name="", source="")

    return constant.laid_out(layout, lambda array: pack_constant(packing, array))


def build_kernel(kernel: Kernel, tiling: Tiling, env: ShapeEnv) -> KernelCode:
    """The machine code of one kernel (brought into normal form here), from the cache where it is
    there.
    """
    source, program, arguments = print_kernel(kernel, tiling, env)
    return KernelCode(source, compile_cfunc(source), program, arguments)


@lru_cache(maxsize=512)
def print_kernel(
    kernel: Kernel, tiling: Tiling, env: ShapeEnv
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    """The source of a kernel, its tile program, and its arguments, without compiling.

    The source is under canonical names alone, so that equal kernels have the same.
    """
    normal = normalise(kernel)
    offsets = rebased(normal).offsets
    named, axes = canonical(normal)
    named, known, symbols = canonical_symbols(named, env)
    source, program, arguments = _printed(named, renamed_tiling(tiling, axes), known)
    if any(old != new for old, new in symbols.items()):
        back = {symbol(new): symbol(old) for old, new in symbols.items()}
        program, arguments = with_symbols(program, back), with_symbols(arguments, back)
    tensors = zip((*named.inputs, named.output), (*normal.inputs, normal.output), strict=True)
    own = {
        **{("dim", new): old for old, new in symbols.items()},
        **{(kind, new): old for new, old in tensors for kind in ("tensor", "packed")},
    }
    renamed = (replace(a, name=own.get((a.kind, a.name), a.name)) for a in arguments)
    placed = (
        replace(a, offset=offsets[a.name]) if a.kind == "tensor" and a.name in offsets else a
        for a in renamed
    )
    return source, program, tuple(placed)


@lru_cache(maxsize=512)
def _printed(
    named: Kernel, tiling: Tiling, env: ShapeEnv
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    program = lower(named, tiling, env)
    arguments = _arguments(program)
    return emit(program, tuple((a.local, a.kind) for a in arguments)), program, arguments


def _arguments(p: TileProgram) -> tuple[Argument, ...]:
    """The argument block: what the body touches, in the order of the buffers, then the symbols."""
    packed = {q.name: q for q in p.packings}
    tables = dict(p.tables)
    touched = {b.name for s in p.body for b in _buffers(s)}
    out: list[Argument] = []
    for b in p.buffers:
        if b.name not in touched:
            continue
        size = ITEM_BYTES[b.dtype]
        match b.kind:
            case "packed":
                q = packed[b.name]
                out.append(Argument("packed", q.source, b.name, b.size, size, packing=q))
            case "table":
                out.append(Argument("table", b.name, b.name, b.size, size, tables[b.name]))
            case "scratch":
                out.append(Argument("scratch", b.name, b.name, b.size, size))
            case _:
                out.append(Argument("tensor", b.name, b.name, b.size, size))
    for name in sorted(_symbols(p)):
        out.append(Argument("dim", name, symbol_name(name)))
    return tuple(out)


def _symbols(p: TileProgram) -> frozenset[str]:
    found: set[str] = set()

    def dims(*values: Dim) -> None:
        for v in values:
            found.update(symbols_of(v))

    def span(s: Span) -> None:
        dims(s.size, s.extent, s.base.const, *(c for _, c in s.base.terms))

    def expr(e: TileExpr) -> None:
        match e:
            case Do(_, args):
                for a in args:
                    expr(a)
            case Fetch(_, offset, dynamic):
                dims(offset.const, *(c for _, c in offset.terms))
                for index, stride, extent in dynamic:
                    expr(index)
                    dims(stride, extent)
            case IndexValue(index):
                dims(index.const, *(c for _, c in index.terms))
            case Const(value, _):
                if not isinstance(value, (int, float)):
                    dims(value)

    def statement(s: Statement) -> None:
        match s:
            case For(over, body):
                span(over)
                for inner in body:
                    statement(inner)
            case Load(target, source, spans):
                for x in spans:
                    span(x)
                expr(target)
                expr(source)
            case Map(target, spans, value):
                for x in spans:
                    span(x)
                expr(target)
                expr(value)
            case Reduce(target, spans, over, _, value, _):
                for x in (*spans, *over):
                    span(x)
                expr(target)
                expr(value)
            case Scan(target, spans, over, _, value, _, _, _):
                for x in (*spans, over):
                    span(x)
                expr(target)
                expr(value)
            case OnePass(parts):
                for part in parts:
                    statement(part)
            case Pack(target, source, columns, depth, _):
                dims(target.size)
                for x in (columns, *depth):
                    span(x)
                expr(source)
            case Panels(rows, columns, _, c, _, epilogue):
                for x in (*rows, columns):
                    span(x)
                dims(c.depth)
                expr(c.a)
                expr(c.b)
                statement(epilogue)
            case _:
                dims(s.target.size)

    for g in p.grid:
        dims(g.extent)
    for s in p.body:
        statement(s)
    return frozenset(found)


def _buffers(s: Statement) -> list[Buffer]:
    match s:
        case For(_, body):
            return [b for inner in body for b in _buffers(inner)]
        case Load(target, source, _):
            return [target.buffer, *(f.buffer for f in fetches(source))]
        case Map(target, _, expr) | Reduce(target, _, _, _, expr, _) | Scan(target, _, _, _, expr):
            return [target.buffer, *(f.buffer for f in fetches(expr))]
        case OnePass(parts):
            return [b for part in parts for b in _buffers(part)]
        case Pack(target, source, _, _, _):
            return [target, source.buffer]
        case Panels(_, _, _, c, table, epilogue):
            return [c.acc, c.a.buffer, c.segments, c.b.buffer, table, *_buffers(epilogue)]
        case _:
            return [s.target]


Progress = Callable[[str, int, int], bool | None]
Printed = tuple[str, TileProgram, tuple[Argument, ...]]


def build(
    program: Program, progress: Progress | None = None, helpers: Helpers | None = None
) -> dict[str, KernelCode]:
    """The code of every kernel call of a program, by the binding's name.

    `helpers` are processes that were started before; they are gone afterwards.
    `progress(name, done, total)` is told of each; Cancelled is raised where it answers False.
    Raises KernelCompileError, which names the kernel call.
    """
    calls = program.kernel_calls
    done = 0

    def told(name: str) -> None:
        nonlocal done
        if progress is not None and progress(name, done, len(calls)) is False:
            raise Cancelled("code generation was cancelled")
        done += 1

    printed = {b.var.name: _print(b, program.env) for b in calls}
    users: dict[str, list[str]] = {}  # by key
    for name, (source, _, _) in printed.items():
        users.setdefault(key_of(source), []).append(name)
    machine: dict[str, MachineCode] = {}

    def have(key: str, code: MachineCode) -> None:
        machine[key] = code
        for name in users[key]:
            told(name)

    missing: list[Job] = []
    for key, names in users.items():
        found = loaded(key)
        if found is None:
            missing.append(Job(key, printed[names[0]][0], names[0]))
        else:
            have(key, found)
    with helpers or Helpers() as team:
        team.grow(helpers_for(len(missing)))
        compile_jobs(missing, team, lambda job, code: have(job.key, code))
    return {
        name: KernelCode(printed[name][0], machine[key], *printed[name][1:])
        for key, names in users.items()
        for name in names
    }


def _print(binding: Binding, env: ShapeEnv) -> Printed:
    call = binding.expr
    assert isinstance(call, KernelCall)
    tiling = call.tiling if isinstance(call.tiling, Tiling) else Tiling()
    return print_kernel(call.kernel, tiling, env)
