"""Split-K: a long sum as sums of its parts, and the sum of those; both in one kernel.

y[i, j] = sum[k < K] a[i, k] * b[k, j]
->  parts[s, i, j] = sum[k < K/4] a[i, s*(K/4) + k] * b[s*(K/4) + k, j]
    y[i, j] = sum[s < 4] parts[s, i, j]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Micro
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, reads, substitute
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.running import running
from explorer.ir.patterns.scatter import scatter
from explorer.ir.program import Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.passes.copies.index_maps import quotient
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass

LEAST_ELEMENTS = 1 << 16  # that take longer than to share them out; chosen, no measurement kept


@compiler_pass("split-reduction", paper="Relax, ASPLOS 2025, section 4.4: split-K workspaces")
@dataclass(frozen=True, slots=True)
class SplitReduction:
    """After: a contraction whose sum is long and whose result has few tiles is made of partial
    sums, at most `chunks`, which many units can compute; so is any other reduction of a kernel's
    inputs to fewer results than there are units.

    `tiles`: it has few tiles if it has at most so many. `least`: so many products stay in a part.
    `contractions`: they are split as well, those whose sums are not shorter than `shortest`.
    `elements`: any other reduction reads so many at least.
    """

    chunks: int = 4
    tiles: int = 1
    least: int = 64
    contractions: bool = True
    shortest: int = 0
    elements: int = LEAST_ELEMENTS

    def __post_init__(self) -> None:
        if self.chunks < 2:
            raise BadOption(
                f"a sum is split into 2 chunks or more, found {self.chunks}",
                where="chunks",
                expected="2 or more",
                found=self.chunks,
            )

    def __call__(self, program: Program) -> Program:
        """The program with split sums in its kernels."""
        for function in program.functions:
            body = tuple(
                replace(b, expr=replace(b.expr, kernel=self.split(b.expr.kernel, program.env)))
                if isinstance(b.expr, KernelCall)
                else b
                for b in function.body
            )
            program = program.with_function(replace(function, body=body))
        return program

    def split(self, kernel: Kernel, env: ShapeEnv) -> Kernel:
        """The kernel with every contraction split that is worth it and can be."""
        for c in kernel.computes:
            chosen = self.choose(kernel, c, env)
            if not isinstance(chosen, str):
                kernel = split_axis(kernel, c, *chosen)
        return kernel

    def choose(self, kernel: Kernel, c: Compute, env: ShapeEnv) -> tuple[str, int] | str:
        """The axis to cut and into how many parts; or why a compute is left as it is."""
        if sum(k.out == c.out for k in kernel.computes) > 1:
            return "others write parts of the same tensor"
        if len(kernel.outputs) > 1:
            return "others write tensors at the same points"
        if contraction(c) is None:
            return self.choose_plain(kernel, c, env)
        if not self.contractions:
            return "contractions are left whole"
        tile = Micro().rows * Micro().columns
        found = -(-prod(env.hint(a.extent) for a in c.axes) // tile)
        if found > self.tiles:
            return f"its result has {found} tiles, which are enough"
        depth = prod(env.hint(a.extent) for a in c.reduce)
        if depth < self.shortest:
            return f"its sum is {depth} long, shorter than {self.shortest}"
        most = min(self.chunks, depth // self.least)
        if most < 2:
            return f"its sum is {depth} long, too short for two parts of {self.least}"
        for axis in sorted(c.reduce, key=lambda a: -env.hint(a.extent)):
            for count in range(most, 1, -1):
                if quotient(axis.extent, count) is not None:
                    return axis.name, count
        return "no axis of the sum is divided by a number of parts for every binding"

    def choose_plain(self, kernel: Kernel, c: Compute, env: ShapeEnv) -> tuple[str, int] | str:
        """The same for a reduction that is no contraction: the outermost axis, so that each part
        is one piece of memory.
        """
        loads = list(reads(c.expr))
        if not c.reduce or sum(bool(k.reduce) for k in kernel.computes) > 1:
            return "it is not the only reduction of its kernel"
        outside = any(r.fill is not None or r.tensor not in kernel.inputs for r in loads)
        if outside or running(kernel, c):
            return "it reads more than elements of inputs"
        if scatter(kernel, c):
            return "its elements are combined in order"
        results = prod(env.hint(a.extent) for a in c.axes)
        if results > self.tiles:
            return f"it has {results} results, which are enough"
        depth = results * prod(env.hint(a.extent) for a in c.reduce)
        if depth < self.elements:
            return f"it reads {depth} elements, fewer than {self.elements}"
        outer = c.reduce[0]
        for count in range(min(self.chunks, depth // (self.elements // 2)), 1, -1):
            if quotient(outer.extent, count) is not None:
                return outer.name, count
        return f"{outer.extent} is not divided by a number of parts for every binding"


def split_axis(kernel: Kernel, c: Compute, axis: str, count: int) -> Kernel:
    """The kernel with a compute's reduction over `axis` made of `count` parts."""
    names = {a.name for k in kernel.computes for a in (*k.axes, *k.reduce)}
    part = fresh(f"{axis}_part", names)
    parts = fresh(f"{c.out}_parts", {t.name for t in kernel.tensors})
    extent = next(a.extent for a in c.reduce if a.name == axis)
    length = quotient(extent, count)
    assert length is not None, "the parts must divide the axis"
    over = (Axis(part, count), *c.axes)
    within = tuple(Axis(axis, length) if a.name == axis else a for a in c.reduce)
    expr = substitute(c.expr, {axis: var(part) * length + var(axis)})
    partial = replace(c, out=parts, axes=over, reduce=within, expr=expr, store=())
    load = Read(parts, tuple(var(a.name) for a in over))
    whole = replace(c, expr=load, reduce=(Axis(part, count),))
    spec = TensorSpec(parts, tuple(a.extent for a in over), kernel.dtype(c.out))
    computes = tuple(x for k in kernel.computes for x in ((partial, whole) if k is c else (k,)))
    return replace(kernel, tensors=(*kernel.tensors, spec), computes=computes)
