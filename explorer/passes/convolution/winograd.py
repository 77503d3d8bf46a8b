"""Convolutions by minimal filtering, where the model says that it pays.

Of 3 x 3: F(2x2, 3x3) needs 2.25 times fewer products than direct convolution, F(4x4, 3x3) 4 times
fewer (Lavin and Gray 2016), and pays for them with additions and with larger weights. A longer
window is filtered along one dim: by F(4, 4), 11 taps take 5.25 products instead of 11.

Accuracy: the largest error of F(2x2) is about that of the direct sum, that of F(4x4) stays below
1e-5 of the largest answer (about 3e-6 at 512 channels), those along a row below 1e-6. What is not
finite spreads: a NaN or an infinity of the input makes every output of its tiles (2 x 2, 4 x 4, or
3 or 4 in a row) NaN, those that the direct sum makes so and neighbours that it does not; an
infinity comes out as NaN. Values above 1e37 may overflow where the direct sum does not. The
algorithm "direct" keeps NumPy's meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any, Protocol

import numpy as np

from explorer.cost.bound import bind_kernel, sizes_of
from explorer.devices.model import Device
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.algorithms import AlgorithmDecision
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.patterns.contraction import contraction
from explorer.ir.program import Binding, Constant, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.convolution.map_parts import map_parts
from explorer.passes.convolution.minimal_filters import F2, F4, ROW3, ROW4, MinimalFilter
from explorer.passes.convolution.row_filters import RowSum, RowTransforms, row_sum
from explorer.passes.convolution.tile_transforms import Transforms
from explorer.passes.convolution.window_sums import WindowSum, window_sum
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.progress import told
from explorer.passes.pipeline.ranges import OneOf, Share, check, option
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched

Price = Callable[[Kernel, ShapeEnv], float]  # modelled microseconds at the best tiling


class Computes(Protocol):
    """A convolution of a kernel by an algorithm."""

    @property
    def filters(self) -> str: ...
    def replaced(self) -> Kernel: ...
    def transformed(self, weights: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to convolve: `find` says what it needs to know of a compute, or why it cannot do it."""

    label: str
    by: MinimalFilter
    find: Callable[[Kernel, Compute], WindowSum | RowSum | str]
    computes: Callable[[Kernel, Any, MinimalFilter], Computes]


ALGORITHMS = {
    "f2": Algorithm(F2.label, F2, window_sum, Transforms),
    "f4": Algorithm(F4.label, F4, window_sum, Transforms),
    "row3": Algorithm(ROW3.row_label, ROW3, row_sum, RowTransforms),
    "row4": Algorithm(ROW4.row_label, ROW4, row_sum, RowTransforms),
}


@dataclass(frozen=True, slots=True)
class Options:
    """How convolutions are done.

    algorithm  "auto": as the model says; "direct", or "f2", "f4" of 3 x 3, "row3", "row4" of longer
               windows: that one wherever it can be done
    margin     "auto" leaves direct convolution only for a gain of this share of its time
    """

    algorithm: str = option(
        "auto", OneOf(("auto", "direct", *ALGORITHMS)), "how convolutions are done"
    )
    margin: float = option(
        0.1, Share(below=True), "the gain that auto leaves direct convolution for"
    )

    def __post_init__(self) -> None:
        check("convolution", self)


def products(kernel: Kernel, env: ShapeEnv) -> float:
    """A price that knows no device: what is multiplied or added, in millions."""
    return sum(
        prod(env.hint(a.extent) for a in (*c.axes, *c.reduce)) / 1e6 for c in kernel.computes
    )


@compiler_pass("winograd", paper="Lavin and Gray 2016, Fast algorithms for convolutional networks")
@dataclass(frozen=True, slots=True)
class Winograd:
    """Minimal filtering for one device. `price` is Roller's modelled time of a kernel.

    Where the constants of a program are more than the caches of the device hold, each run loads
    weights from memory: that is counted apart, as if nothing hid it.
    """

    device: Device | None = None
    price: Price = products
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """After: a convolution by constant weights is done by the algorithm that is modelled to be
        fastest; every algorithm that was weighed stands in the decisions.
        """
        if self.options.algorithm == "direct":
            return program
        constants = dict(program.constants)
        decisions: list[AlgorithmDecision] = []
        weighed: dict[Kernel, tuple[Candidate[str | None], ...]] = {}
        calls = program.kernel_calls
        convolutions = sum(_only_convolution(b.kernel_call.kernel) is not None for b in calls)
        rate = self.load_rate(program)

        def chosen(binding: Binding) -> Binding:
            call = binding.expr
            found = _only_convolution(call.kernel) if isinstance(call, KernelCall) else None
            if found is None or not isinstance(call, KernelCall):
                return binding
            kernel = call.kernel
            told(f"choose convolutions: {binding.name}", len(decisions), convolutions)
            if kernel not in weighed:
                planned = bind_kernel(kernel, sizes_of(kernel, program.env))  # in numbers: fast
                compute = _only_convolution(planned)
                asked = (kernel, found) if compute is None else (planned, compute)
                weighed[kernel] = self.candidates(*asked, program.env, rate)
            ranked = weighed[kernel]
            new = _rewritten(binding, call, found, ranked[0], constants)
            if new is None:
                ranked = _finite_only(ranked)
            decisions.append(AlgorithmDecision(binding.var.name, ranked[0].label, ranked))
            return new or binding

        functions = tuple(replace(f, body=tuple(map(chosen, f.body))) for f in program.functions)
        if not decisions:
            return program
        left = replace(program.decisions, algorithms=tuple(decisions))
        return replace(program, functions=functions, constants=constants, decisions=left)

    def load_rate(self, program: Program) -> float:
        """Bytes of weights that all units load from memory in a microsecond; infinite where a cache
        holds them all.
        """
        total = sum(c.array.nbytes for c in program.constants.values())
        if self.device is None or total <= _cache_bytes(self.device):
            return float("inf")
        return self.device.all_gb_per_s(self.device.levels[-1]) * 1e3

    def terms(self, kernel: Kernel, env: ShapeEnv, rate: float) -> tuple[tuple[str, float], ...]:
        """What a kernel takes: its modelled time, and loading its constants at that rate."""
        shapes = (kernel.shape(n) for n in kernel.constants)
        count = sum(prod(env.hint(d) for d in shape) for shape in shapes)
        return ("modelled", self.price(kernel, env)), ("weights", 4 * count / rate)

    def candidates(
        self, kernel: Kernel, found: Compute | str, env: ShapeEnv, rate: float = float("inf")
    ) -> tuple[Candidate[str | None], ...]:
        """Every algorithm for a convolution: the one to take first, losers with the reason."""
        direct = Candidate("direct", None, self.terms(kernel, env, rate))
        if isinstance(found, str):
            return (
                direct,
                *(Candidate(a.label, a.label, refused=found) for a in ALGORITHMS.values()),
            )
        wanted = self.options.algorithm
        limit = direct.cost_us * (1 - self.options.margin)
        others: list[Candidate[str | None]] = []
        for name, way in ALGORITHMS.items():
            if wanted not in ("auto", name):
                others.append(Candidate(way.label, way.label, refused=f"the option says {wanted}"))
                continue
            new = rewritten(kernel, found, way)
            if isinstance(new, str):
                others.append(Candidate(way.label, way.label, refused=new))
                continue
            terms = self.terms(new, env, rate)
            why = _refusal(sum(t for _, t in terms), limit, direct, wanted == name)
            others.append(Candidate(way.label, way.label, terms, why))
        if wanted in ALGORITHMS and not all(c.refused for c in others):
            direct = replace(direct, refused=f"the option says {wanted}")
        best = sorted((c for c in others if not c.refused), key=lambda c: c.cost_us)
        return (*best, direct, *(c for c in others if c.refused))


def _cache_bytes(device: Device) -> int:
    """The largest memory of a device but the last."""
    return max((m.capacity_bytes or 0 for m in device.levels[:-1]), default=0)


def _refusal(time_us: float, limit_us: float, direct: Candidate[str | None], forced: bool) -> str:
    if not isfinite(time_us):
        return "no tile of it is legal on this device"
    if forced or time_us <= limit_us:
        return ""
    return f"it would take {time_us:.1f} us by the model, direct {direct.cost_us:.1f} us"


def _only_convolution(kernel: Kernel) -> Compute | str | None:
    """The one sum over a window in a kernel, or why it must be done directly; None without one, or
    where it has no results.
    """
    if len(kernel.outputs) > 1:
        return None
    sums = [c for c in kernel.computes if c.reduce]
    windows = [c for c in sums if contraction(c) is not None and len(c.reduce) > 1]
    if not windows or any(a.extent == 0 for c in windows for a in c.axes):
        return None
    return windows[0] if len(sums) == 1 else "the kernel sums something else as well"


def could_be_filtered(kernel: Kernel) -> bool:
    """Whether minimal filtering is a way to do a kernel's 3 x 3 convolution, were it not for
    others.
    """
    return any(c.reduce and not isinstance(window_sum(kernel, c), str) for c in kernel.computes)


def rewritten(kernel: Kernel, compute: Compute, way: Algorithm) -> Kernel | str:
    """The kernel with its convolution done by minimal filtering, or why it cannot be."""
    found = way.find(kernel, compute)
    if isinstance(found, str):
        return found
    made = normalise(map_parts(way.computes(kernel, found, way.by).replaced()))
    if compute.out in {c.out for c in made.computes if c.out != made.output}:
        return "what follows it is not done element by element"
    return made


def _rewritten(
    binding: Binding,
    call: KernelCall,
    compute: Compute | str,
    taken: Candidate[str | None],
    constants: dict[str, Constant],
) -> Binding | None:
    """The binding with the algorithm that was taken; None where its weights overflow."""
    way = next((a for a in ALGORITHMS.values() if a.label == taken.label), None)
    if isinstance(compute, str) or way is None:
        return binding
    found = way.find(call.kernel, compute)
    kernel = rewritten(call.kernel, compute, way)
    assert isinstance(kernel, Kernel) and not isinstance(found, str)
    given = dict(zip(call.kernel.inputs, call.args, strict=True))
    computes = way.computes(call.kernel, found, way.by)
    filters = _filters(given[found.weight.tensor], found, way, computes, constants)
    if filters is None:
        return None
    values = given | {computes.filters: filters}
    args = tuple(values[n] for n in kernel.inputs)
    new = replace(binding, expr=replace(call, kernel=kernel, args=args))
    matched(way.computes, (binding,), (new,), way.label)
    return new


def _filters(
    weight: Var,
    found: WindowSum | RowSum,
    way: Algorithm,
    computes: Computes,
    constants: dict[str, Constant],
) -> Var | None:
    """The transformed weights as a constant of the program; None where one is not finite."""
    source = constants[weight.name]
    how = (found.filter_dims, found.group) if isinstance(found, WindowSum) else found.filter_place
    made = source.laid_out((way.label, how), computes.transformed)
    if not np.isfinite(made).all():
        return None
    name = f"{weight.name}.{way.label}"
    if name not in constants or constants[name].array is not made:
        name = fresh(name, constants)
        constants[name] = Constant(made)
    return Var(name, Tensor(tuple(made.shape), "float32"))


def _finite_only(ranked: tuple[Candidate[str | None], ...]) -> tuple[Candidate[str | None], ...]:
    """The direct algorithm first: the others would have weights that are not finite."""
    why = "its transformed weights are not finite"
    return (
        *(replace(c, refused="") for c in ranked if c.value is None),
        *(replace(c, refused=c.refused or why) for c in ranked if c.value is not None),
    )
