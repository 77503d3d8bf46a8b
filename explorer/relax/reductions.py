"""Long reductions to few results, split into parts for all units and one final reduction.

    y = kernel sum(x)   ->   y.parts: float32[2] = kernel sum_parts(x); y = kernel sum(y.parts)

Split-K: a long sum as partial sums and their sum, at first both in one kernel.

    y[i, j] = sum[k < K] a[i, k] * b[k, j]
    ->  parts[s, i, j] = sum[k < K/4] a[i, s*(K/4) + k] * b[s*(K/4) + k, j]
        y[i, j] = sum[s < 4] parts[s, i, j]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Micro
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, reads, substitute
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.running import running
from explorer.ir.kernels.scatter import scatter
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.ir.symbols import defined_by, parameter_symbols
from explorer.ops.interpreter.verify import scopes_of
from explorer.passes.registry import compiler_pass
from explorer.relax.lift_workspaces import LiftWorkspaces, lift, workspaces
from explorer.transforms.copies.index_maps import quotient

Price: TypeAlias = Callable[[Kernel, ShapeEnv], float]

ANY_BYTES = 1 << 62  # only parts are lifted, whatever the size of a tile
PARTS = (8, 32, 128)  # numbers of parts that are priced; chosen
MOST_RESULT_TILES = 1024  # of a contraction whose sum may be shared; chosen
LEAST_SUM, LEAST_OTHER_ELEMENTS = (
    8192,
    4096,
)  # of contractions, of others: shorter ones are not split; chosen
LEAST_PART = 256  # of the sum of a contraction; chosen
GAIN_RATIO = 0.8  # parts and their sum take at most this share of the time; chosen


LEAST_ELEMENTS = 1 << 16  # fewer are not worth splitting; chosen, not measured


@compiler_pass("share-long-reductions", paper="Relax, ASPLOS 2025, section 4.4: workspace lifting")
@dataclass(frozen=True, slots=True)
class ShareLongReductions:
    """Long reductions shared by all units.

    After: no reduction of 65,536 elements or more to fewer results than `units` runs on one unit.
    Measured: the sum of 1,000,000 numbers takes 29 us on two units, 50 on one.

    `price` is the time of a kernel alone on a device whose barrier takes `meeting_us`. If it is
    given, it decides, for contractions too: a long sum gets the number of parts that is fastest
    (split-K across thread blocks, its parts summed in a fixed order).
    """

    units: int
    price: Price | None = None
    meeting_us: float = 0.0

    def __call__(self, program: Program) -> Program:
        """Return the program with shared reductions, or itself if there is none."""
        if self.units < 2:
            return program
        if self.price is None:
            splitter = SplitReduction(self.units, tiles=self.units - 1, contractions=False)
            split = splitter(program)
        else:
            split = self._split_if_faster(program, self.price)
        return program if split == program else LiftWorkspaces(ANY_BYTES)(split)

    def _split_if_faster(self, program: Program, price: Price) -> Program:
        scopes = scopes_of(program)
        for function in program.functions:
            scope = {*scopes[function.name], *parameter_symbols(function)}
            shared = self._function(function, program.env, scope, price)
            program = program if shared == function else program.with_function(shared)
        return program

    def _function(
        self, function: Function, env: ShapeEnv, scope: set[str], price: Price
    ) -> Function:
        body = []
        for b in function.body:
            candidates = (
                [*self._candidates(b, env, scope, price)] if isinstance(b.expr, KernelCall) else []
            )
            if candidates:
                us, best = min(candidates, key=lambda candidate: candidate[0])
                paid = us <= GAIN_RATIO * price(b.kernel_call.kernel, env)
                b = replace(b, expr=best) if paid else b
            body.append(b)
            scope |= defined_by(b)
        return replace(function, body=tuple(body))

    def _candidates(
        self, b: Binding, env: ShapeEnv, scope: Iterable[str], price: Price
    ) -> Iterator[tuple[float, KernelCall]]:
        """Yield the call with its sums split, with the time of the parts and their sum."""
        kernel = b.kernel_call.kernel
        seen, sums = {kernel}, any(contraction(c) for c in kernel.computes)
        tiles = MOST_RESULT_TILES if sums else self.units - 1
        for count in PARTS:
            rule = SplitReduction(
                count,
                tiles,
                LEAST_PART,
                shortest=LEAST_SUM,
                elements=LEAST_OTHER_ELEMENTS,
            )
            split = replace(b.kernel_call, kernel=rule.split(kernel, env))
            trial = replace(b, expr=split)
            if split.kernel in seen:
                continue
            seen.add(split.kernel)
            lifted = workspaces(trial, env, scope, ANY_BYTES)
            if len(lifted) == 1 and not lifted[0].refused:
                parts = [x.kernel_call.kernel for x in lift(trial, lifted[0].tensor, set())]
                yield sum(price(k, env) for k in parts) + self.meeting_us, split


@compiler_pass("split-reduction", paper="Relax, ASPLOS 2025, section 4.4: split-K workspaces")
@dataclass(frozen=True, slots=True)
class SplitReduction:
    """Long sums with few results, split into partial sums.

    After: a contraction with a long sum and few result tiles consists of at most `chunks` partial
    sums, which many units can compute. So does any other reduction of a kernel's inputs to fewer
    results than there are units.

    `tiles`: at most so many result tiles are few. `least`: products that stay in a part.
    `contractions`: they are split as well, if their sums are not shorter than `shortest`.
    `elements`: any other reduction reads at least so many.
    """

    chunks: int = 4
    tiles: int = 1
    least: int = 64
    contractions: bool = True
    shortest: int = 0
    elements: int = LEAST_ELEMENTS

    def __post_init__(self) -> None:
        """Raise BadOption for fewer than two chunks."""
        if self.chunks < 2:
            raise BadOption(
                f"a sum is split into 2 chunks or more, found {self.chunks}",
                where="chunks",
                expected="2 or more",
                actual=self.chunks,
            )

    def __call__(self, program: Program) -> Program:
        """Split the sums in every kernel."""
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
        """Split every compute of a kernel that `choose` accepts."""
        for c in kernel.computes:
            chosen = self.choose(kernel, c, env)
            if not isinstance(chosen, str):
                kernel = split_axis(kernel, c, *chosen)
        return kernel

    def choose(self, kernel: Kernel, c: Compute, env: ShapeEnv) -> tuple[str, int] | str:
        """Return the axis to split and the number of parts, or why a compute is not split."""
        if sum(k.out == c.out for k in kernel.computes) > 1:
            return "other computes write parts of the same tensor"
        if len(kernel.outputs) > 1:
            return "other computes write tensors at the same points"
        if contraction(c) is None:
            return self.choose_plain(kernel, c, env)
        if not self.contractions:
            return "contractions are not split"
        tile = Micro().rows * Micro().columns
        result_tiles = -(-prod(env.hint(a.extent) for a in c.axes) // tile)
        if result_tiles > self.tiles:
            return f"its result has {result_tiles} tiles, which are enough"
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
        """Return the same for a reduction that is no contraction.

        The outermost axis is split, so that each part is contiguous in memory.
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
    """Split a compute's reduction over `axis` into `count` parts."""
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
    final = replace(c, expr=load, reduce=(Axis(part, count),))
    spec = TensorSpec(parts, tuple(a.extent for a in over), kernel.dtype(c.out))
    computes = tuple(x for k in kernel.computes for x in ((partial, final) if k is c else (k,)))
    return replace(kernel, tensors=(*kernel.tensors, spec), computes=computes)
