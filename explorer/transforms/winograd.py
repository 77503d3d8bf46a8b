"""Minimal filtering of convolutions, chosen by the cost model.

Of 3 x 3: F(2x2, 3x3) needs 2.25 times fewer products than direct convolution, F(4x4, 3x3) 4 times
fewer (Lavin and Gray 2016); both cost extra additions and larger weights. A longer window is
filtered along one dim: by F(4, 4), 11 taps take 5.25 products instead of 11.

Accuracy: the largest error of F(2x2) is about that of the direct sum. The error of F(4x4) stays
below 1e-5 of the largest answer (about 3e-6 at 512 channels), along a row below 1e-6. Values that
are not finite spread: a NaN or an infinity of the input makes every output of its tiles (2 x 2, 4 x
4, or 3 or 4 in a row) NaN, including neighbours that the direct sum leaves finite; an infinity
comes out as NaN. Values above 1e37 may overflow where the direct sum does not. The algorithm
"direct" keeps NumPy's semantics.

Element-wise computes behind a filtered convolution are split by the parts in which it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any, Protocol

import numpy as np

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.decided import AlgorithmDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Compute, Expr, Kernel, Read, reads, result_dtype, rewrite, substitute
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Constant, Program, fresh
from explorer.ir.types import Tensor
from explorer.passes.ranges import OneOf, Share, check, option
from explorer.passes.registry import compiler_pass
from explorer.process.cancellation import report_progress
from explorer.transforms.minimal_filters import F2, F4, ROW3, ROW4, MinimalFilter
from explorer.transforms.rewrite import record_match
from explorer.transforms.row_filters import RowSum, RowTransforms, row_sum
from explorer.transforms.tile_transforms import Transforms, WindowSum, window_sum

Price = Callable[[Kernel, ShapeEnv], float]  # modelled microseconds at the best tiling


class Computes(Protocol):
    """The computes of a convolution by one algorithm."""

    @property
    def filters(self) -> str:
        """The name of the transformed weights."""

    def rewritten_kernel(self) -> Kernel:
        """Return the kernel with the convolution's compute replaced."""

    def transform_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the constant's values in the layout of this algorithm."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A convolution algorithm.

    `find` matches a compute, or returns why the algorithm does not apply.
    """

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
    """Options of the convolution algorithms.

    algorithm  "auto": by the cost model; "direct", or "f2", "f4" for 3 x 3, "row3", "row4" for
               longer windows: that one wherever it applies
    margin     "auto" leaves direct convolution only for a gain of this share of its time
    """

    algorithm: str = option(
        "auto", OneOf(("auto", "direct", *ALGORITHMS)), "the convolution algorithm"
    )
    margin: float = option(
        0.1, Share(below=True), "the least gain for which auto leaves direct convolution"
    )

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        check("convolution", self)


def products(kernel: Kernel, env: ShapeEnv) -> float:
    """Return a device-independent cost: multiplications and additions, in millions."""
    return sum(
        prod(env.hint(a.extent) for a in (*c.axes, *c.reduce)) / 1e6 for c in kernel.computes
    )


@compiler_pass("winograd", paper="Lavin and Gray 2016, Fast algorithms for convolutional networks")
@dataclass(frozen=True, slots=True)
class Winograd:
    """The minimal-filtering pass for one device; `price` is Roller's modelled time of a kernel.

    If the program's constants exceed the device's caches, each run loads weights from memory. That
    time is added to the model without overlap.
    """

    device: Device | None = None
    price: Price = products
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Select the fastest modelled algorithm for each convolution.

        After: a convolution by constant weights uses the algorithm with the lowest modelled time.
        The decisions list every candidate.
        """
        if self.options.algorithm == "direct":
            return program
        constants = dict(program.constants)
        decisions: list[AlgorithmDecision] = []
        weighed: dict[Kernel, tuple[Candidate[str | None], ...]] = {}
        calls = program.kernel_calls
        convolutions = sum(_single_convolution(b.kernel_call.kernel) is not None for b in calls)
        rate = self.load_rate(program)

        def select(binding: Binding) -> Binding:
            call = binding.expr
            convolution = _single_convolution(call.kernel) if isinstance(call, KernelCall) else None
            if convolution is None or not isinstance(call, KernelCall):
                return binding
            kernel = call.kernel
            report_progress(
                f"select convolution algorithms: {binding.name}", len(decisions), convolutions
            )
            if kernel not in weighed:
                planned = bind_kernel(
                    kernel, sizes_of(kernel, program.env)
                )  # numbers are faster than symbols
                compute = _single_convolution(planned)
                candidate_of = (kernel, convolution) if compute is None else (planned, compute)
                weighed[kernel] = self.candidates(*candidate_of, program.env, rate)
            ranked = weighed[kernel]
            new = _apply_to_binding(binding, call, convolution, ranked[0], constants)
            if new is None:
                ranked = _prefer_direct(ranked)
            decisions.append(AlgorithmDecision(binding.var.name, ranked[0].label, ranked))
            return new or binding

        functions = tuple(replace(f, body=tuple(map(select, f.body))) for f in program.functions)
        if not decisions:
            return program
        left = replace(program.decisions, algorithms=tuple(decisions))
        return replace(program, functions=functions, constants=constants, decisions=left)

    def load_rate(self, program: Program) -> float:
        """Return the rate at which all units load weights from memory, in bytes per microsecond.

        The rate is infinite if a cache holds all constants.
        """
        total = sum(c.nbytes for c in program.constants.values())
        if self.device is None or total <= _cache_bytes(self.device):
            return float("inf")
        return self.device.all_gb_per_s(self.device.levels[-1]) * 1e3

    def terms(self, kernel: Kernel, env: ShapeEnv, rate: float) -> tuple[tuple[str, float], ...]:
        """Return the cost terms of a kernel: modelled time, and load time of its constants."""
        shapes = (kernel.shape(n) for n in kernel.constants)
        count = sum(prod(env.hint(d) for d in shape) for shape in shapes)
        return ("modelled", self.price(kernel, env)), ("weights", 4 * count / rate)

    def candidates(
        self, kernel: Kernel, convolution: Compute | str, env: ShapeEnv, rate: float = float("inf")
    ) -> tuple[Candidate[str | None], ...]:
        """Return every algorithm for a convolution, best first, losers with the reason."""
        direct = Candidate("direct", None, self.terms(kernel, env, rate))
        if isinstance(convolution, str):
            return (
                direct,
                *(Candidate(a.label, a.label, refused=convolution) for a in ALGORITHMS.values()),
            )
        wanted = self.options.algorithm
        limit = direct.cost_us * (1 - self.options.margin)
        others: list[Candidate[str | None]] = []
        for name, algorithm in ALGORITHMS.items():
            if wanted not in ("auto", name):
                others.append(
                    Candidate(algorithm.label, algorithm.label, refused=f"the option says {wanted}")
                )
                continue
            new = apply_algorithm(kernel, convolution, algorithm)
            if isinstance(new, str):
                others.append(Candidate(algorithm.label, algorithm.label, refused=new))
                continue
            terms = self.terms(new, env, rate)
            why = _refusal(sum(t for _, t in terms), limit, direct, wanted == name)
            others.append(Candidate(algorithm.label, algorithm.label, terms, why))
        if wanted in ALGORITHMS and not all(c.refused for c in others):
            direct = replace(direct, refused=f"the option says {wanted}")
        best = sorted((c for c in others if not c.refused), key=lambda c: c.cost_us)
        return (*best, direct, *(c for c in others if c.refused))


def _cache_bytes(device: Device) -> int:
    """Return the capacity of the largest memory level but the last."""
    return max((m.capacity_bytes or 0 for m in device.levels[:-1]), default=0)


def _refusal(time_us: float, limit_us: float, direct: Candidate[str | None], forced: bool) -> str:
    if not isfinite(time_us):
        return "no tile of it is legal on this device"
    if forced or time_us <= limit_us:
        return ""
    return f"it would take {time_us:.1f} us by the model, direct {direct.cost_us:.1f} us"


def _single_convolution(kernel: Kernel) -> Compute | str | None:
    """Return the single window sum of a kernel, or why it must be direct.

    Returns None without a window sum, or if its result is empty.
    """
    if len(kernel.outputs) > 1:
        return None
    sums = [c for c in kernel.computes if c.reduce]
    windows = [c for c in sums if contraction(c) is not None and len(c.reduce) > 1]
    if not windows or any(a.extent == 0 for c in windows for a in c.axes):
        return None
    return windows[0] if len(sums) == 1 else "the kernel has another reduction"


def can_be_filtered(kernel: Kernel) -> bool:
    """Return True if a kernel has a 3 x 3 convolution that minimal filtering supports."""
    return any(c.reduce and not isinstance(window_sum(kernel, c), str) for c in kernel.computes)


def apply_algorithm(kernel: Kernel, compute: Compute, algorithm: Algorithm) -> Kernel | str:
    """Return the kernel with its convolution by minimal filtering, or why that is impossible."""
    window = algorithm.find(kernel, compute)
    if isinstance(window, str):
        return window
    filtered = normalise(
        map_parts(algorithm.computes(kernel, window, algorithm.by).rewritten_kernel())
    )
    if compute.out in {c.out for c in filtered.computes if c.out != filtered.output}:
        return "its result is not read element by element"
    return filtered


def _apply_to_binding(
    binding: Binding,
    call: KernelCall,
    compute: Compute | str,
    taken: Candidate[str | None],
    constants: dict[str, Constant],
) -> Binding | None:
    """Apply the selected algorithm to a binding; return None if its weights overflow."""
    algorithm = next((a for a in ALGORITHMS.values() if a.label == taken.label), None)
    if isinstance(compute, str) or algorithm is None:
        return binding
    window = algorithm.find(call.kernel, compute)
    kernel = apply_algorithm(call.kernel, compute, algorithm)
    assert isinstance(kernel, Kernel) and not isinstance(window, str)
    operands = dict(zip(call.kernel.inputs, call.args, strict=True))
    computes = algorithm.computes(call.kernel, window, algorithm.by)
    filters = _transform_filters(
        operands[window.weight.tensor], window, algorithm, computes, constants
    )
    if filters is None:
        return None
    values = operands | {computes.filters: filters}
    args = tuple(values[n] for n in kernel.inputs)
    new = replace(binding, expr=replace(call, kernel=kernel, args=args))
    record_match(algorithm.computes, (binding,), (new,), algorithm.label)
    return new


def _transform_filters(
    weight: Var,
    window: WindowSum | RowSum,
    algorithm: Algorithm,
    computes: Computes,
    constants: dict[str, Constant],
) -> Var | None:
    """Return the transformed weights as a constant of the program, or None if not finite."""
    source = constants[weight.name]
    how = (
        (window.filter_dims, window.group) if isinstance(window, WindowSum) else window.filter_place
    )
    transformed = source.laid_out((algorithm.label, how), computes.transform_weights)
    if not np.isfinite(transformed).all():
        return None
    name = f"{weight.name}.{algorithm.label}"
    if name not in constants or constants[name].array is not transformed:
        name = fresh(name, constants)
        constants[name] = Constant(transformed)
    return Var(name, Tensor(tuple(transformed.shape), "float32"))


def _prefer_direct(ranked: tuple[Candidate[str | None], ...]) -> tuple[Candidate[str | None], ...]:
    """Put the direct algorithm first: the transformed weights of the others are not finite."""
    why = "its transformed weights are not finite"
    return (
        *(replace(c, refused="") for c in ranked if c.value is None),
        *(replace(c, refused=c.refused or why) for c in ranked if c.value is not None),
    )


def map_parts(kernel: Kernel) -> Kernel:
    """Split an element-wise compute by the parts of the tensor that it reads.

    After: no element-wise compute is the only reader of a tensor that element-wise computes write
    in parts. `t[2*i] = a[i]; t[2*i+1] = b[i]; y[j] = max(t[j], 0)` becomes `y[2*i] = max(a[i], 0);
    y[2*i+1] = max(b[i], 0)`.
    """
    split = {c.out for c in kernel.computes if any(i.bare is None for i in c.target)}
    for tensor in sorted(split - {*kernel.outputs}):
        kernel = _map_tensor(kernel, tensor)
    return kernel


def _map_tensor(kernel: Kernel, tensor: str) -> Kernel:
    parts = [c for c in kernel.computes if c.out == tensor]
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if len(users) != 1 or users[0].reduce or any(_is_no_map(kernel, p) for p in parts):
        return kernel
    (user,) = users
    mine = {r for r in reads(user.expr) if r.tensor == tensor}
    if len(mine) != 1:
        return kernel
    read = mine.pop()
    if not _reads_all(kernel, user, read):
        return kernel
    mapped = [_map_part(user, p, read) for p in parts]
    if any(m is None for m in mapped) or sum(c.out == user.out for c in kernel.computes) > 1:
        return kernel
    new = tuple(m for m in mapped if m is not None)
    others = tuple(c for c in kernel.computes if c.out != tensor)
    place = others.index(user)
    return replace(
        kernel,
        computes=(*others[:place], *new, *others[place + 1 :]),
        tensors=tuple(t for t in kernel.tensors if t.name != tensor),
    )


def _reads_all(kernel: Kernel, user: Compute, read: Read) -> bool:
    """Return True if the reader's axes cover all of the dims that they index."""
    extents = {a.name: a.extent for a in user.axes}
    return all(
        extents.get(i.bare, n) == n
        for i, n in zip(read.index, kernel.shape(read.tensor), strict=True)
        if isinstance(i, Affine) and i.bare is not None
    )


def _is_no_map(kernel: Kernel, c: Compute) -> bool:
    return bool(c.reduce) or result_dtype(c.expr, kernel) != kernel.dtype(c.out)


def _map_part(user: Compute, part: Compute, read: Read) -> Compute | None:
    """Return the reader at the elements that one part writes, or None if it is not element-wise."""
    if read.fill is not None:
        return None
    values: dict[str, Affine] = {}
    for stored, index in zip(part.target, read.index, strict=True):
        if not isinstance(index, Affine):
            return None
        if index == stored and not index.terms:
            continue
        if index.bare is None or index.bare in values:
            return None
        values[index.bare] = stored
    if set(values) != {a.name for a in user.axes}:
        return None

    def leaf(r: Read) -> Expr:
        return part.expr if r.tensor == part.out else r

    return replace(
        part,
        out=user.out,
        expr=rewrite(substitute(user.expr, values), leaf),
        store=tuple(i.substitute(values) for i in user.target),
        origin=part.origin | user.origin,
    )
