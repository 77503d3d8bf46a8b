"""What a program computes exactly enough, and how far rounding may take an answer from it.

Every operator is evaluated in float64 and rounded once to the type of its result. Rounding errors
are then drawn at random, of the size that the type and the depth of the operator's sums allow
(Parker 1997, Monte Carlo arithmetic; Higham 2002, section 3.1), and so are the signs of zeros,
which a sum from 0 and one from its first term give otherwise: the spread of the answers is how far
errors reach, through whatever comes after. An element that is infinite, finite or a whole number by
their leave is not judged. Where errors decide which of many elements is the largest, a few draws do
not choose each: more trials do so in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.dims import evaluate_shape
from explorer.ir.dtypes import dtype_of, is_float
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import Interpreter, evaluate
from explorer.ops.interpreter.frame import CallFrame, bind_sizes

Arrays = Mapping[str, np.ndarray]
REACH = 8.0  # times the largest spread seen: what more trials would have found
LARGE = (REACH, -REACH)
TRIALS = (1.0, -1.0, *LARGE, *LARGE)  # what errors are multiplied by: large ones cross thresholds
CHOICES = frozenset({"Hardmax", "ArgMax", "ArgMin", "TopK"})
MOST_TIED = 64  # elements that are chosen in turn
EXACT = frozenset({
    "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Concat", "Split",
    "Tile", "Expand", "Gather", "GatherElements", "GatherND", "Trilu", "Pad", "Identity", "Neg",
    "Abs", "Relu", "Max", "Min", "Sign", "Floor", "Ceil", "Round", "Where", "Clip", "MaxPool",
    "GlobalMaxPool", "TopK", "ReduceMax", "ReduceMin", "DepthToSpace", "SpaceToDepth",
    "ReverseSequence", "OneHot", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",
    "ArgMax", "ArgMin", "Shape", "Size", "ConstantOfShape", "Not", "And", "Or", "Xor", "Range",
    "Hardmax", "IsNaN", "IsInf", "EyeLike", "CastLike", "ThresholdedRelu", "Mod",
})  # fmt: skip
SUMS = frozenset({
    "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceSum", "ReduceMean", "ReduceProd",
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "Softmax",
    "LogSoftmax", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
    "RMSNormalization", "LpNormalization", "LRN", "CumSum", "CumProd", "AveragePool",
    "GlobalAveragePool", "LpPool", "GlobalLpPool", "LSTM", "GRU", "RNN", "ScatterElements",
    "ScatterND", "Resize", "BatchNormalization", "Mean", "Sum", "MatMulInteger", "ConvInteger",
    "QLinearMatMul", "QLinearConv", "QuantizeLinear", "DFT", "STFT",
    "AffineGrid", "DeformConv", "GridSample", "RoiAlign", "Attention", "Col2Im",
    "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss",
})  # fmt: skip
PRODUCTS = frozenset({"ReduceProd", "CumProd"})
NORMS = frozenset({"LayerNormalization", "InstanceNormalization", "GroupNormalization"})
ULPS = 4.0  # of a function of one element, as vector libraries promise
FILTERED = 2e-5  # of the largest answer: what minimal filtering promises, and the same again;
# also what tables of cosines in float32, and a fast transform, leave where sums cancel
OF_ONE = frozenset({
    "Softplus", "Sigmoid", "Tanh", "LSTM", "GRU", "RNN", "Erf", "Softmax", "Gelu", "Mish",
    "LogSoftmax", "ReduceLogSum", "ReduceLogSumExp",
})  # fmt: skip
BELOW_ZERO = {"Elu": 1.0, "Celu": 1.0, "Selu": 1.6732632}  # alpha: times exp(x) - 1
FILTER_TILE = 4  # results of one tile along a dim, at most
WIDEST_GELU = 5.5  # beyond it the error function is 1 in float32
SQUASHED = 3.5  # units of 1: functions that libraries cut off, and logarithms of sums near 1


@dataclass(frozen=True, slots=True)
class Bound:
    """An exact answer, how far each element may be from it, and which elements can be judged."""

    value: np.ndarray
    reach: np.ndarray
    judged: np.ndarray


@dataclass(frozen=True, slots=True)
class Errors:
    """Draws errors of a size; those of the other sign move values to the other side."""

    rng: np.random.Generator
    size: float

    def upto(self, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers up to the size."""
        return self.size * self.rng.uniform(-1, 1, shape)

    def signs(self, shape: tuple[int, ...]) -> np.ndarray:
        """The size, of either sign."""
        return self.size * self.rng.choice([-1, 1], shape)


def bounds(program: Program, feeds: Arrays, seed: int = 0) -> dict[str, Bound]:
    """The bound of each output of a program of stage TYPED."""
    with np.errstate(all="ignore"):
        run = _Rounding(program, bind_sizes(program, feeds))
        exact = run.outputs(feeds)
        sizes, runs = [*TRIALS], list[_Rounding]()
        trials = []
        for n, size in enumerate(TRIALS):
            runs.append(run.again(Errors(np.random.default_rng((seed, n // 2)), size)))
            trials.append(runs[-1].outputs(feeds))
        ties = [
            _tie(choice, [r.choices[n] for r in runs if n < len(r.choices)])
            for n, choice in enumerate(run.choices)
        ]
        for n in range(min(MOST_TIED, max((tie.most for tie in ties), default=0))):
            for size in LARGE:
                errors = Errors(np.random.default_rng((seed, len(TRIALS) + n)), size)
                trials.append(run.again(errors, [tie.choosing(n) for tie in ties]).outputs(feeds))
                sizes.append(size)
        native = evaluate(program, feeds)  # what overflows within an operator is not judged
        return {
            name: _bound(exact[name], [t[name] for t in trials], native[name], sizes)
            for name in exact
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows, last, of which an operator chooses so many elements: the largest, or the least."""

    rows: np.ndarray
    count: int
    sign: int


@dataclass(frozen=True, slots=True)
class _Tie:
    """Rows, how far rounding may take their elements, and those that are chosen by its leave."""

    rows: np.ndarray
    reach: np.ndarray
    tied: np.ndarray
    sign: int

    @property
    def most(self) -> int:
        """The elements of a row that may be chosen in place of each other."""
        return int(self.tied.sum(-1).max(initial=0))

    def choosing(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where a row is tied, and its elements such that the one of a number is chosen."""
        count = self.tied.sum(-1, keepdims=True)
        chosen = self.tied & (self.tied.cumsum(-1) - 1 == number % np.maximum(count, 1))
        way = np.where(chosen, self.sign, -self.sign)
        return self.tied, self.rows + way * self.reach


def _tie(choice: Choice, trials: Sequence[Choice]) -> _Tie:
    """The elements of each row that rounding may take to the place of the last that is chosen."""
    rows, none = choice.rows, np.zeros(choice.rows.shape)
    alike = len(trials) == len(TRIALS) and all(t.rows.shape == rows.shape for t in trials)
    if not alike or not rows.shape[-1] or not 0 < choice.count <= rows.shape[-1]:
        return _Tie(rows, none, none.astype(bool), choice.sign)
    reach = _bound(rows, [t.rows for t in trials], rows, TRIALS).reach
    order = np.argsort(-choice.sign * rows, axis=-1, kind="stable")
    last = order[..., choice.count - 1, None]
    both = reach + np.take_along_axis(reach, last, -1)
    tied = np.abs(rows - np.take_along_axis(rows, last, -1)) <= both
    return _Tie(rows, reach, tied & (tied.sum(-1, keepdims=True) > 1), choice.sign)


def _bound(
    exact: np.ndarray, trials: Sequence[np.ndarray], native: np.ndarray, sizes: Sequence[float]
) -> Bound:
    judged = np.ones(exact.shape, bool)
    if any(trial.shape != exact.shape for trial in trials):  # a size is computed from floats
        return Bound(exact, np.zeros(exact.shape), ~judged)
    if not is_float(dtype_of(exact)):
        for trial in trials:
            judged &= trial == exact
        return Bound(exact, np.zeros(exact.shape), judged)
    value = exact.astype(np.float64)
    if native.shape == exact.shape:
        judged &= np.isfinite(native) == np.isfinite(exact)
    spread = np.zeros(exact.shape)
    typical = 0.0
    for n, (size, trial) in enumerate(zip(sizes, trials, strict=True), 1):
        judged &= np.isfinite(trial) == np.isfinite(exact)
        judged &= (np.isinf(trial) == np.isinf(exact)) & (~np.isinf(exact) | (trial == exact))
        gap = np.abs(trial.astype(np.float64) - value) / abs(size)
        spread = np.fmax(spread, np.where(np.isfinite(gap), gap, 0))
        if n == len(TRIALS) and spread.size:  # what a tie decides tells nothing of other elements
            typical = float(spread.mean())
    tiny = 2 * float(np.finfo(dtype_of(exact)).smallest_subnormal) if exact.dtype.kind == "f" else 0
    ulp = 2 * _unit(dtype_of(exact)) * np.where(np.isfinite(value), np.abs(value), 0)
    return Bound(value, REACH * (spread + typical) + ulp + tiny, judged)


def evaluated(
    program: Program, feeds: Arrays, errors: Errors | None = None
) -> dict[str, np.ndarray]:
    """The outputs, every operator in float64 and rounded once, with errors where some are drawn."""
    return _Rounding(program, bind_sizes(program, feeds), errors).outputs(feeds)


class _Rounding(Interpreter):
    """Evaluates in float64, with errors where some are drawn. `choices` are those it came by; a row
    of each that is tied gets the elements that `choosing` has for it.
    """

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        errors: Errors | None = None,
        choosing: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    ) -> None:
        super().__init__(program, sizes)
        self.errors = errors
        self.choosing = choosing
        self.choices: list[Choice] = []

    def again(
        self, errors: Errors, choosing: Sequence[tuple[np.ndarray, np.ndarray]] = ()
    ) -> _Rounding:
        """The same with other errors."""
        return _Rounding(self.program, self.sizes, errors, choosing)

    def outputs(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """The outputs by name."""
        main = self.program.main
        found = self.run(main, [feeds[p.name] for p in main.params])
        names = main.output_names or tuple(v.name for v in main.outputs)
        return dict(zip(names, found, strict=True))

    def binding(
        self, binding: Binding, values: Mapping[str, np.ndarray], frame: CallFrame
    ) -> Sequence[np.ndarray]:
        call = binding.expr
        if isinstance(call, LibraryCall):
            results = super().binding(binding, values, frame)
            return [self._rounded(call, v, a) for v, a in zip(binding.vars, results)]
        if not isinstance(call, OpCall):
            return super().binding(binding, values, frame)
        given = {a.name: self.value(a, values) for a in call.args if a is not None}
        depth = self._depth_of(binding, given, frame) if call.op in SUMS else 0
        wide = {n: self._widened(a, depth) for n, a in given.items()}
        first = call.args[0].name if call.args and call.args[0] is not None else ""
        if call.op in CHOICES and is_float(dtype_of(given[first])):
            wide[first] = self._chosen_from(call, wide[first], frame)
        found = [
            np.asarray(a) if isinstance(a, np.generic) else a
            for a in super().binding(binding, {**values, **wide}, frame)
        ]
        if self.errors is not None and call.op in PRODUCTS and found[0].dtype.kind == "f":
            found[0] = self._in_any_order(found[0], binding, values, wide, frame)
        if self.errors is not None and call.op == "Conv":
            found[0] = np.where(_tiles_beside(~np.isfinite(found[0])), np.nan, found[0])
        if self.errors is not None and call.op in NORMS:
            slip = _slip(call, wide[call.args[0].name if call.args[0] else ""])
            found[0] = found[0] + slip * self.errors.upto(found[0].shape)
        return [self._rounded(call, v, a) for v, a in zip(binding.vars, found)]

    def _in_any_order(
        self,
        found: np.ndarray,
        binding: Binding,
        values: Mapping[str, np.ndarray],
        wide: Mapping[str, np.ndarray],
        frame: CallFrame,
    ) -> np.ndarray:
        """Products, NaN where factors in another order may meet infinity or 0 on the way."""
        kind = binding.vars[0].type
        assert isinstance(kind, Tensor) and kind.dtype is not None
        real = {n: np.abs(a) for n, a in wide.items() if a.dtype.kind == "f"}
        large = {n: np.where((a < 1) | np.isinf(a), 1, a) for n, a in real.items()}
        small = {n: np.where((a > 1) | (a == 0), 1, a) for n, a in real.items()}
        (most,) = super().binding(binding, {**values, **wide, **large}, frame)
        (least,) = super().binding(binding, {**values, **wide, **small}, frame)
        info = np.finfo(_numpy(kind.dtype))
        meets = (np.asarray(most) > info.max) | (np.asarray(least) < info.tiny)
        return np.where(meets & ~np.isnan(found), np.nan, found)

    def _chosen_from(self, call: OpCall, given: np.ndarray, frame: CallFrame) -> np.ndarray:
        """What a choice is made from, noted; elements that are tied as they are asked to be."""
        attrs: dict[str, Any] = dict(call.attrs)
        axis = attrs.get("axis", 0 if call.op.startswith("Arg") else -1)
        rows = np.moveaxis(np.atleast_1d(given), axis, -1)
        k = attrs.get("k", 1)
        (count,) = evaluate_shape(k if isinstance(k, tuple) else (k,), frame.sizes)
        least = call.op == "ArgMin" or not attrs.get("largest", 1)
        number = len(self.choices)
        self.choices.append(Choice(rows, count, -1 if least else 1))
        if number < len(self.choosing) and self.choosing[number][0].shape == rows.shape:
            rows = np.where(*self.choosing[number], rows)
        return np.moveaxis(rows, -1, axis).reshape(given.shape)

    def _depth_of(self, binding: Binding, given: Mapping[str, Any], frame: CallFrame) -> int:
        assert isinstance(binding.expr, OpCall)
        shapes = [a.shape for a in given.values() if isinstance(a, np.ndarray)]
        kind = binding.vars[0].type
        known = isinstance(kind, Tensor) and kind.shape is not None
        made = prod(evaluate_shape(kind.dims, frame.sizes)) if known else 1
        return max(1, _depth(binding.expr, shapes, made))

    def _widened(self, array: Any, depth: int) -> Any:
        """An argument in float64; before a sum, with errors that grow with its depth.

        Each term is off by as many units as there are terms: their sum then is by as many as their
        square root, and each alone by as many as it takes part in additions.
        """
        if not isinstance(array, np.ndarray) or not is_float(dtype_of(array)):
            return array
        wide = array.astype(np.float64)
        if self.errors is None or not depth:
            return wide
        unit = _unit("float64" if dtype_of(array) == "float64" else "float32")
        return wide * (1 + unit * depth * self.errors.upto(wide.shape))

    def _rounded(self, call: OpCall | LibraryCall, var: Var, array: Any) -> Any:
        """A result in the type that it is declared with, with errors of a few units."""
        op = call.op if isinstance(call, OpCall) else call.function
        if not isinstance(array, np.ndarray) or not isinstance(var.type, Tensor):
            return array
        dtype = var.type.dtype
        if dtype is None or not is_float(dtype):
            return array
        wide = array.astype(np.float64)
        if self.errors is not None and op not in EXACT:
            wide = wide * (1 + ULPS * _unit(dtype) * self.errors.upto(wide.shape))
            wide = wide + self._absolute(op, call.attrs, wide, dtype) * self.errors.signs(
                wide.shape
            )
        if self.errors is not None:
            signed = np.copysign(wide, self.errors.upto(wide.shape))
            wide = np.where(wide == 0, signed, wide)
        return wide.astype(_numpy(dtype))

    def _absolute(self, op: str, attrs: Any, wide: np.ndarray, dtype: str) -> Any:
        """Errors that are no share of the element itself."""
        if op in ("Resize", "GridSample", "DeformConv", "RoiAlign"):  # coordinates are rounded, too
            finite = np.abs(wide[np.isfinite(wide)])
            return 2 * _unit("float32") * max(wide.shape, default=1) * float(finite.max(initial=0))
        if op in ("DFT", "STFT") or (op == "Conv" and dtype == "float32"):
            finite = np.abs(wide[np.isfinite(wide)])
            return FILTERED * float(finite.max(initial=0)) / REACH
        unit = _unit("float64" if dtype == "float64" else "float32")
        if op in BELOW_ZERO:  # ONNX defines them by exp(x) - 1: off by a unit of 1
            given: dict[str, Any] = dict(attrs)
            times = abs(given.get("alpha", BELOW_ZERO[op]) * given.get("gamma", 1.0507010))
            return np.where(wide < 0, times * SQUASHED * unit / REACH, 0.0)
        times = WIDEST_GELU / 2 if op == "Gelu" else 1.0  # x / 2 times what is off by units of 1
        return times * SQUASHED * unit / REACH if op in OF_ONE else 0.0


def _tiles_beside(odd: np.ndarray) -> np.ndarray:
    """The results that minimal filtering may have in one tile with an odd one: what is not finite
    is then in sums that direct convolution leaves it out of.
    """
    found = odd
    for axis in range(2, odd.ndim if odd.size else 0):
        around = [(0, 0)] * odd.ndim
        around[axis] = (FILTER_TILE - 1, FILTER_TILE - 1)
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(found, around), 2 * FILTER_TILE - 1, axis
        )
        found = windows.any(-1)
    return found


def _slip(call: OpCall, x: np.ndarray) -> np.ndarray:
    """How far a normalised element moves where the mean of its group is rounded: all elements of a
    group move together then, which no error of one element does.
    """
    attrs: dict[str, Any] = dict(call.attrs)
    if call.op == "LayerNormalization":
        axis = attrs.get("axis", -1) % x.ndim
        rows = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
    else:
        groups = attrs.get("num_groups", x.shape[1])
        rows = x.reshape(x.shape[0] * groups, x.size // max(1, x.shape[0] * groups))
    if not rows.size:
        return np.zeros(x.shape)
    spread = np.sqrt(rows.var(-1, keepdims=True) + attrs.get("epsilon", 1e-5))
    largest = np.abs(rows).max(-1, keepdims=True)
    slip = _unit("float32") * sqrt(rows.shape[-1]) * largest / spread
    return np.broadcast_to(slip, rows.shape).reshape(x.shape)


def _depth(call: OpCall, shapes: Sequence[tuple[int, ...]], made: int) -> int:
    """How many terms a sum has, at most; `made` is how many results there are."""
    attrs: dict[str, Any] = dict(call.attrs)
    first = shapes[0] if shapes and shapes[0] else (1,)
    match call.op:
        case "MatMul" | "Gemm" | "MatMulInteger" | "QLinearMatMul":
            return max(n for s in (first, *shapes[:2]) for n in s[-2:])
        case "Conv" | "ConvInteger" | "QLinearConv":
            return prod(shapes[1][1:])
        case "ConvTranspose":
            return prod(shapes[1]) // max(1, shapes[1][1])
        case "Softmax" | "LogSoftmax" | "LpNormalization" | "CumSum" | "CumProd":
            return max(first)
        case "LayerNormalization" | "RMSNormalization":
            return prod(first[attrs.get("axis", -1) % len(first) :])
        case "InstanceNormalization" | "GroupNormalization":
            return prod(first[1:])
        case "AveragePool" | "LpPool":
            return prod(attrs.get("kernel_shape", (1,)))
        case "LSTM" | "GRU" | "RNN":
            return sum(first)
        case "Einsum":
            return max(prod(s) for s in shapes)
        case op if op.startswith(("Reduce", "Global")):
            return -(-prod(first) // max(1, made))
    return 8


def _unit(dtype: Any) -> float:
    """The largest relative error of one rounding."""
    import ml_dtypes

    return float(ml_dtypes.finfo(_numpy(dtype)).eps) / 2


def _numpy(dtype: Any) -> Any:
    from explorer.ir.types import numpy_dtype

    return numpy_dtype(dtype) if isinstance(dtype, str) else dtype
