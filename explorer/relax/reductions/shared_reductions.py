"""Long reductions to few results, split into parts for all units and one final reduction.

y = kernel sum(x)   ->   y.parts: float32[2] = kernel sum_parts(x); y = kernel sum(y.parts)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.contraction import contraction
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.symbols import defined_by, parameter_symbols
from explorer.ops.reference.verify_symbols import scopes_of
from explorer.passes.pipeline.registry import compiler_pass
from explorer.relax.memory.workspace import LiftWorkspaces, lift, workspaces
from explorer.relax.reductions.split_reduction import SplitReduction

Price: TypeAlias = Callable[[Kernel, ShapeEnv], float]

ANY_BYTES = 1 << 62  # only parts are lifted, whatever the size of a tile
PARTS = (8, 32, 128)  # numbers of parts that are priced; chosen
MOST_RESULT_TILES = 1024  # of a contraction whose sum may be shared; chosen
LEAST_SUM, LEAST_ELEMENTS = (
    8192,
    4096,
)  # of contractions, of others: shorter ones are not split; chosen
LEAST_PART = 256  # of the sum of a contraction; chosen
GAIN_RATIO = 0.8  # parts and their sum take at most this share of the time; chosen


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
                elements=LEAST_ELEMENTS,
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
