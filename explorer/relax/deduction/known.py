"""What deduction knows of values: annotations, and the elements of small integer ones."""

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
MOST_CONSTANT_ELEMENTS = 1024  # of a constant that is looked into; chosen


class Knowledge:
    """The annotations and elements of a function's values, filled in order."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.constants = constants
        self.vars: dict[str, Var] = {}
        self.elements: dict[str, Values] = {}
        self.matched = frozenset[str]()  # what only match_casts of the program's own read
        self.calls: dict[str, OpCall] = {}  # the comparisons that gave bools

    def copied(self) -> Knowledge:
        """Return the same knowledge, to which others may add."""
        found = copy(self)
        found.vars, found.elements = dict(self.vars), dict(self.elements)
        found.calls = dict(self.calls)
        return found

    def learn(self, var: Var, elements: Values | None = None) -> Var:
        """A value is annotated so, and its elements are these."""
        self.vars[var.name] = var
        if elements is not None and elements.size <= MOST_ELEMENTS and _is_small(var):
            assert elements.shape == var.tensor.shape, f"{var.name} is folded to another shape"
            self.elements[var.name] = _wrapped(elements, var.tensor.element)
        return var

    def var(self, var: Var) -> Var:
        """The value with its annotation."""
        return self.vars.get(var.name, var)

    def values(self, var: Var | None) -> Values | None:
        """The elements of a value, where they are few and known."""
        if var is None:
            return None
        known = self.elements.get(var.name)
        if known is not None or var.name in self.vars:
            return known
        constant = self.constants.get(var.name)
        if constant is None or constant.array.size > MOST_CONSTANT_ELEMENTS:
            return None
        return constant.array.astype(object)

    def compared(self, var: Var) -> tuple[Dim, Dim] | None:
        """Return the two extents of which a bool says that they are equal, a number last; None for
        other bools.
        """
        call = self.calls.get(var.name)
        if call is None or call.op != "Equal":
            return None
        a, b = (self.values(v) for v in call.args)
        if a is None or b is None or a.size != 1 or b.size != 1:
            return None
        one, two = a.reshape(-1)[0], b.reshape(-1)[0]
        return (two, one) if isinstance(one, int) else (one, two)

    def was_folded(self, var: Var) -> bool:
        """Whether the elements are known without running anything."""
        return var.name in self.elements


def _is_small(var: Var) -> bool:
    """Whether a value can be a shape, or what is computed of one."""
    return isinstance(var.type, Tensor) and var.type.dtype in ("int64", "int32", "bool")


def _wrapped(elements: Values, dtype: DType) -> Values:
    """Numbers as elements of their dtype, where kernels wrap what is too large for it."""
    low, high = integer_limits(dtype)
    found = np.empty(elements.shape, object)
    for at in np.ndindex(elements.shape if elements.size else 0):  # of no elements it lists extents
        e = elements[at]
        whole = isinstance(e, (int, np.integer)) and not low <= e <= high
        found[at] = (int(e) - low) % (high - low + 1) + low if whole else e
    return found


def is_known(var: Var | None) -> bool:
    """Whether shape and dtype are annotated; an argument left out needs none."""
    return var is None or (isinstance(var.type, Tensor) and var.type.is_known)


def all_integers(elements: Values) -> bool:
    """Whether no element depends on a symbol."""
    return all(isinstance(e, (int, bool, np.integer)) for e in elements.reshape(-1))
