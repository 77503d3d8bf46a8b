"""Workspace lifting (Relax, section 4.4): a large tensor inside a kernel becomes a value.

The memory plan then places it and lets it share.

    y = kernel matmul(a, b)         let parts: float32[4, n, m]
    ->  y.parts: float32[4, n, m] = kernel matmul_parts(a, b); y = kernel matmul(y.parts)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dims import Dim, ShapeEnv, evaluate_dim, product, symbols_of
from explorer.ir.kernel import Compute, Kernel, Read, reads
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.ir.symbols import defined_by, parameter_symbols
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops.interpreter.verify import scopes_of
from explorer.passes.registry import compiler_pass

KEPT_BYTES = 256 << 10  # L2 of a core from Nehalem on: Intel 64 optimization manual, 2.4 (2009)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A tensor between the computes of a kernel.

    `bytes` is a formula; `tile_bytes` are those that one element of the output needs, under the
    hints. `refused` says why it is not lifted.
    """

    call: str
    tensor: str
    bytes: Dim
    tile_bytes: int
    reason: str
    refused: str = ""


@compiler_pass("lift-workspaces", paper="Relax, ASPLOS 2025, section 4.4: workspace lifting")
@dataclass(frozen=True, slots=True)
class LiftWorkspaces:
    """Large tensors inside kernels, lifted to values of the program.

    After: partial sums, and tensors of which one tile needs more than `kept_bytes`, are values.
    Tensors whose shape the call site cannot express stay inside.
    """

    kept_bytes: int = KEPT_BYTES

    def __call__(self, program: Program) -> Program:
        """Return the program with workspaces lifted, each of them among its decisions."""
        rows: list[Workspace] = []
        scopes = scopes_of(program)
        for function in program.functions:
            lifted, lifted_rows = self.function(program, function, scopes[function.name])
            rows += lifted_rows
            program = program.with_function(lifted)
        decisions = replace(program.decisions, workspaces=tuple(rows))
        return replace(program, decisions=decisions)

    def function(
        self, program: Program, function: Function, caller_symbols: Iterable[str]
    ) -> tuple[Function, list[Workspace]]:
        """Lift the workspaces of one function; `caller_symbols` are the symbols from its caller."""
        scope = {*caller_symbols, *parameter_symbols(function)}
        taken = {v.name for b in function.body for v in (*b.vars, *b.reads)}
        taken |= {p.name for p in function.params} | program.constants.keys()
        body: list[Binding] = []
        rows: list[Workspace] = []
        for binding in function.body:
            todo: Binding | None = binding
            while todo is not None:
                candidates = workspaces(todo, program.env, scope, self.kept_bytes)
                rows += [w for w in candidates if w not in rows]
                first = next((w for w in candidates if not w.refused), None)
                if first is None:
                    body.append(todo)
                    break
                producer, todo = lift(todo, first.tensor, taken)
                body.append(producer)
            scope |= defined_by(binding)
        return replace(function, body=tuple(body)), rows


def workspaces(
    binding: Binding, env: ShapeEnv, scope: Iterable[str], kept_bytes: int = KEPT_BYTES
) -> list[Workspace]:
    """Return the tensors inside of a kernel that no tile can hold, in order."""
    if not isinstance(binding.expr, KernelCall):
        return []
    kernel, result = binding.expr.kernel, list[Workspace]()
    written = dict.fromkeys(c.out for c in kernel.computes)
    if len(written) < 2:
        return []
    tile = {a.name: 1 for c in kernel.computes if c.out in kernel.outputs for a in c.axes}
    regions = propagate(kernel, tile).tensors
    for tensor in written:
        if tensor in kernel.outputs or tensor not in regions:
            continue
        item = ITEM_BYTES[kernel.dtype(tensor)]
        tile_bytes = item
        for part in regions[tensor]:
            tile_bytes *= env.hint(part.size)
        reason = _reason(kernel, tensor, tile_bytes, kept_bytes)
        if reason:
            size = product((*kernel.shape(tensor), item))
            refused = _refusal(kernel, tensor, set(scope))
            result.append(Workspace(binding.name, tensor, size, tile_bytes, reason, refused))
    return result


def _reason(kernel: Kernel, tensor: str, tile_bytes: int, kept_bytes: int) -> str:
    """Return why a tile does not hold a tensor, or "" if it does."""
    if tile_bytes > kept_bytes:
        return (
            f"one element of the output needs {tile_bytes} bytes of it, "
            f"at most {kept_bytes} are kept"
        )
    writers = [c for c in kernel.computes if c.out == tensor]
    readers = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if len(writers) == 1 and len(readers) == 1 and _gathers(writers[0], readers[0]):
        return "its parts can be computed by different units"
    return ""


def _gathers(writer: Compute, reader: Compute) -> bool:
    """Return True if one reduction only combines the parts of another."""
    if not writer.reduce or writer.combiner != reader.combiner or not isinstance(reader.expr, Read):
        return False
    over = {a.name for a in reader.reduce}
    used = {n for i in reader.expr.index if isinstance(i, Affine) for n in i.variables}
    return bool(over & used)


def _refusal(kernel: Kernel, tensor: str, scope: set[str]) -> str:
    """Return why a workspace stays inside."""
    shape = kernel.shape(tensor)
    unknown = sorted({s for d in shape for s in symbols_of(d)} - scope)
    if unknown:
        return f"its shape needs {', '.join(unknown)}, which the caller does not know"
    try:
        for d in shape:
            evaluate_dim(d, dict.fromkeys(symbols_of(d), 1))
    except (ValueError, ZeroDivisionError):
        return "its shape cannot be written at the call"
    if kernel.updates:
        return "the kernel writes into another tensor"
    if len(kernel.outputs) > 1:
        return "the kernel writes several tensors"
    before, after = _cut(kernel, tensor)
    written = {c.out for c in before} - {tensor}
    crossing = sorted({r.tensor for c in after for r in reads(c.expr)} & written)
    if crossing:
        return f"{crossing[0]} would have to leave the kernel too"
    return ""


def _cut(kernel: Kernel, tensor: str) -> tuple[tuple[Compute, ...], tuple[Compute, ...]]:
    """Return the computes that a tensor depends on, and the others."""
    needed = {tensor}
    before: list[Compute] = []
    for c in reversed(kernel.computes):
        if c.out in needed:
            before.append(c)
            needed |= {r.tensor for r in reads(c.expr)}
    after = tuple(c for c in kernel.computes if c not in before)
    return tuple(reversed(before)), after


def lift(binding: Binding, tensor: str, taken: set[str]) -> tuple[Binding, Binding]:
    """Return the call that computes a workspace, and the call that uses it."""
    call = binding.kernel_call
    kernel = call.kernel
    before, after = _cut(kernel, tensor)
    name = fresh(f"{binding.var.name}.{tensor}", taken)
    taken.add(name)
    spec = kernel.spec(tensor)
    workspace = Var(name, Tensor(spec.shape, spec.dtype))
    args = dict(zip(kernel.inputs, call.args, strict=True))
    first = _part(kernel, before, tensor, args, f"{kernel.name}_{tensor}")
    second = _part(kernel, after, kernel.output, args | {tensor: workspace}, kernel.name)
    origin = frozenset[str]().union(*(c.origin for c in before)) or binding.origin
    return Binding((workspace,), first, origin), replace(binding, expr=second)


def _part(
    kernel: Kernel, computes: tuple[Compute, ...], output: str, args: dict[str, Var], name: str
) -> KernelCall:
    """Return a kernel of some of the computes."""
    written = {c.out for c in computes}
    loaded = dict.fromkeys(r.tensor for c in computes for r in reads(c.expr))
    inputs = tuple(t for t in args if t in loaded and t not in written)
    used = {*inputs, *written}
    new = Kernel(
        name,
        tuple(t for t in kernel.tensors if t.name in used),
        computes,
        inputs,
        (output,),
        kernel.constants & set(inputs),
    )
    return KernelCall(new, tuple(args[t] for t in inputs))
