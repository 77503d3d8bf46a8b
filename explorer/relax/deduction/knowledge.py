"""Annotations of values during deduction, and the elements of small integer ones."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import numpy as np

from explorer.ir.calls import OpCall, Var
from explorer.ir.dtypes import integer_limits
from explorer.ir.program import Constant
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import DType, Tensor
from explorer.ops.site import Values

MOST_ELEMENTS = 64  # of a value whose elements are deduced: a bound on time, chosen
MOST_CONSTANT_ELEMENTS = 1024  # of a constant that is read; chosen


class Knowledge:
    """The annotations and elements of a function's values, filled in order."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        """Start with constants only."""
        self.constants = constants
        self.vars: dict[str, Var] = {}
        self.elements: dict[str, Values] = {}
        self.matched = frozenset[str]()  # values that only the program's own match_casts read
        self.calls: dict[str, OpCall] = {}  # comparisons, by the bool that they bind

    def copied(self) -> Knowledge:
        """Return a copy that can be extended independently."""
        knowledge = copy(self)
        knowledge.vars, knowledge.elements = dict(self.vars), dict(self.elements)
        knowledge.calls = dict(self.calls)
        return knowledge

    def learn(self, var: Var, elements: Values | None = None) -> Var:
        """Record the annotation of a value, and its elements if they are small integers."""
        self.vars[var.name] = var
        if elements is not None and elements.size <= MOST_ELEMENTS and _is_small(var):
            assert elements.shape == var.tensor.shape, f"{var.name} is folded to another shape"
            self.elements[var.name] = _wrapped(elements, var.tensor.element)
        return var

    def var(self, var: Var) -> Var:
        """Return the value with its annotation."""
        return self.vars.get(var.name, var)

    def values(self, var: Var | None) -> Values | None:
        """Return the elements of a value if they are few and known."""
        if var is None:
            return None
        elements = self.elements.get(var.name)
        if elements is not None or var.name in self.vars:
            return elements
        constant = self.constants.get(var.name)
        if constant is None or constant.array.size > MOST_CONSTANT_ELEMENTS:
            return None
        return constant.array.astype(object)

    def compared(self, var: Var) -> tuple[Dim, Dim] | None:
        """Return the two extents that a bool compares for equality, a number last.

        Return None for other bools.
        """
        call = self.calls.get(var.name)
        if call is None or call.op != "Equal":
            return None
        a, b = (self.values(v) for v in call.args)
        if a is None or b is None or a.size != 1 or b.size != 1:
            return None
        first, second = a.reshape(-1)[0], b.reshape(-1)[0]
        return (second, first) if isinstance(first, int) else (first, second)

    def was_folded(self, var: Var) -> bool:
        """Return True if the elements are known before a run."""
        return var.name in self.elements


def _is_small(var: Var) -> bool:
    """Return True if a value can be a shape, or be computed from one."""
    return isinstance(var.type, Tensor) and var.type.dtype in ("int64", "int32", "bool")


def _wrapped(elements: Values, dtype: DType) -> Values:
    """Wrap numbers that are too large for their dtype, as kernels do."""
    low, high = integer_limits(dtype)
    wrapped = np.empty(elements.shape, object)
    for at in np.ndindex(elements.shape if elements.size else 0):  # of no elements it lists extents
        e = elements[at]
        overflows = isinstance(e, (int, np.integer)) and not low <= e <= high
        wrapped[at] = (int(e) - low) % (high - low + 1) + low if overflows else e
    return wrapped


def is_known(var: Var | None) -> bool:
    """Return True if shape and dtype are annotated; an omitted argument needs none."""
    return var is None or (isinstance(var.type, Tensor) and var.type.is_known)


def all_integers(elements: Values) -> bool:
    """Return True if no element depends on a symbol."""
    return all(isinstance(e, (int, bool, np.integer)) for e in elements.reshape(-1))
