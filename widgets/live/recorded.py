"""Inputs and answers that a page holds, and how far an answer of a browser may lie from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod, sqrt

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.errors import IronworksError
from explorer.ir.calls import KernelCall
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.dtypes import is_float as is_float_type
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.tuning.compare import TOLERANCE_SHARE, largest, largest_error
from widgets.live.variants import Variant

SAFETY = 8.0  # roundings of an element that is no sum, such as an exponential; chosen
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
RULE = (
    "An element may differ from the recorded one by {share:.1g} of the largest element: "
    "8 roundings of {dtype} for each of {calls} kernels, times the square root of {terms}, the "
    "terms of the longest sum, whose order differs; at most 1e-4, or 8 roundings. Where the model "
    "amplifies roundings more, it may differ by as much as 8 roundings of the inputs change it."
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Outputs with the largest difference that is right for each, and the words of the rule."""

    outputs: Mapping[str, np.ndarray]
    tolerances: Mapping[str, float]
    rule: str
    source: str


def record_answers(
    c: Compilation, first: Variant, inputs: Mapping[str, np.ndarray], sizes: Sizes
) -> Answers:
    """Return the outputs of a compilation, or of the interpreter if it does not run here."""
    share, epsilon, rule = tolerance_share(first, sizes)
    outputs, source = _outputs(c, inputs)
    others, _ = _outputs(c, _rounded(inputs, SAFETY * epsilon))
    tolerances = {}
    for name, array in outputs.items():
        is_float = array.dtype.kind not in "biu"
        changed = largest_error(array, others[name]) if is_float else 0.0
        bound = share * largest(array.astype(np.float64)) if is_float else 0.0
        tolerances[name] = max(bound, changed) if isfinite(changed) else bound
    return Answers(outputs, tolerances, rule, source)


def _outputs(c: Compilation, inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """Return outputs, and what computed them."""
    copies = {name: array.copy() for name, array in inputs.items()}
    try:
        runnable = c.runnable
    except IronworksError:
        outputs = {n: np.asarray(a) for n, a in evaluate(c.model.program, copies).items()}
        return outputs, "the reference interpreter, in NumPy"
    outputs = {n: np.array(a) for n, a in runnable.run(copies).items()}
    return outputs, f"{c.device.name}, where the page was written"


def _rounded(inputs: Mapping[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """Return inputs whose floats are changed by a share of each, up or down at random."""
    draw = np.random.default_rng(0)
    return {
        name: (array * (1 + share * draw.choice((-1, 1), array.shape))).astype(array.dtype)
        if np.issubdtype(array.dtype, np.floating)
        else array
        for name, array in inputs.items()
    }


def tolerance_share(first: Variant, sizes: Sizes) -> tuple[float, float, str]:
    """Return the bound on a difference as a share of the largest element, a rounding, the reason.

    The error of a sum in another order grows with the square root of its terms, and that of a
    network with its layers (Higham and Mary 2019, probabilistic rounding error analysis).
    """
    program, all_sizes = first.compilation.program, {**first.compilation.hint, **sizes}
    calls, terms, dtype = 0, 1, ""
    for _, binding in program.bindings():
        if not isinstance(binding.expr, KernelCall):
            continue
        calls += 1
        for compute in binding.expr.kernel.computes:
            try:
                extents = [evaluate_dim(a.extent, all_sizes) for a in compute.reduce]
            except KeyError:  # an extent that a value decides
                extents = [1]
            terms = max(terms, prod(extents))
        for var in binding.vars:
            if isinstance(var.type, Tensor) and is_float_type(var.type.element):
                dtype = max(dtype, str(var.type.element), key=lambda d: EPSILONS.get(d, 0.0))
    epsilon = EPSILONS.get(dtype, EPSILONS["float32"])
    bound = SAFETY * epsilon * max(1, calls) * sqrt(terms)
    share = min(bound, max(TOLERANCE_SHARE, SAFETY * epsilon))
    words = RULE.format(
        share=share, dtype=dtype or "float32", calls=f"{calls:,}", terms=f"{terms:,}"
    )
    return share, epsilon, words
