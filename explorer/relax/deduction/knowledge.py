"""State of deduction: annotations, elements of small integer values, symbols of run-time dims.

Each run-time dim has one symbol, and a match_cast that defines it. Rules of deduction see the
deduction that they are part of through an interface. At the end, values that are known become
constants, and the shape arithmetic behind them leaves the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from explorer.errors import DtypeError, ShapeError
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import Branch, Expr, Gradient, Loop, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.dtypes import integer_limits
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.symbols import defined_by, is_check, needed_by
from explorer.ir.types import Annotation, DType, Tensor, numpy_dtype
from explorer.ops.record import OperatorRecord, Site, Values

MOST_ELEMENTS = 64  # of a value whose elements are deduced: a bound on time, chosen
MOST_CONSTANT_ELEMENTS = 1024  # of a constant that is read; chosen
HINT_EXTENT = 16  # of an unbounded symbol: pictures and tiles start from it; assumed
SHAPES = "folded into shapes"
CONSTANT = "folded into a constant"
DEAD = "nothing reads it"


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
        if constant is None or constant.size > MOST_CONSTANT_ELEMENTS:
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


@dataclass(frozen=True, slots=True)
class DeducedValue:
    """The deduced annotation of a value, and its elements if they are few and known.

    `dims` holds the known dims if the annotation has no shape.
    """

    type: Annotation
    elements: Values | None = None
    dims: tuple[Dim | None, ...] | None = None


class Symbols:
    """The symbols of a program and fresh ones, some with `limits`."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int] | None = None) -> None:
        """Start with the symbols of `env`."""
        self.env, self.limits = env, limits or {}
        self.taken = {s.name for s in env.symbols}

    def __copy__(self) -> Symbols:
        """Return the present symbols; later ones are not added to the copy."""
        return Symbols(self.env, self.limits)

    def fresh(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """Add a new symbol called like `name`."""
        unique = re.sub(r"\W", "_", name, flags=re.ASCII)
        unique = stem = unique if re.match(r"[A-Za-z_]", unique) else f"n_{unique}"
        count = 1
        while unique in self.taken:
            count += 1
            unique = f"{stem}_{count}"
        self.taken.add(unique)
        if unique in self.limits:
            high = self.limits[unique] if high is None else min(high, self.limits[unique])
        hint = max(low, HINT_EXTENT) if high is None else min(max(low, HINT_EXTENT), high)
        bound = SymbolBound(unique, low, high, hint)
        self.env = ShapeEnv((*self.env.symbols, bound))
        return symbol(unique)

    def settle(
        self, var: Var, value: DeducedValue, origin: frozenset[str]
    ) -> tuple[Var, Binding | None]:
        """Return the value to bind, and the match_cast that names its dims if it needs one.

        y = NonZero(x)  ->  y.found: int64[... 2] = NonZero(x); y: int64[2, y_1] = match y.found
        """
        kind = value.type
        if not isinstance(kind, Tensor) or kind.shape is not None or not _is_countable(kind):
            return Var(var.name, kind), None
        raw = Var(f"{var.name}.found", kind)
        dims = self.completed(var.name, value.dims or (None,) * (kind.rank or 0))
        named = Var(var.name, Tensor(dims, kind.dtype))
        return raw, Binding((named,), MatchCast(raw), origin)

    def completed(self, name: str, dims: Sequence[Dim | None]) -> tuple[Dim, ...]:
        """Return dims with a fresh symbol for each one that is not known."""
        return tuple(self.fresh(f"{name}_{i}") if d is None else d for i, d in enumerate(dims))


def _is_countable(kind: Tensor) -> bool:
    """Return True if dtype and rank are known, so that dims can be counted."""
    return kind.dtype is not None and kind.rank is not None


KnownValue = tuple[Var, "Values | None"]  # a value, and its elements if they are few and known
Deduced = tuple[list[Binding], Expr, tuple[DeducedValue, ...]]


class Deducing(Protocol):
    """One program being annotated.

    constants  its constants, and those that rules add
    source_functions  its functions before deduction
    functions  the annotated functions
    open       closed signatures whose bodies are being annotated
    scope      the symbols that the function being annotated sees
    dropped    source operators that left the program, each with the reason
    """

    symbols: Symbols
    constants: dict[str, Constant]
    scope: set[str]
    open: set[str]
    functions: dict[str, Function]
    dropped: list[tuple[str, str]]

    @property
    def source_functions(self) -> MutableMapping[str, Function]:
        """The functions before deduction, by name."""
        ...

    def function(self, function: Function, args: list[KnownValue], name: str = "") -> Function:
        """Annotate a function for these arguments; it sees the symbols in scope."""
        ...

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the present state of the deduction."""
        ...

    def contradiction(
        self, bindings: Sequence[Binding], knowledge: Knowledge
    ) -> ShapeError | DtypeError | None:
        """Return the error if these bindings came next, before the rest of the function."""
        ...

    def annotated(
        self, record: OperatorRecord, site: Site
    ) -> tuple[Expr, tuple[DeducedValue, ...]]:
        """Return an operator at its site, with the annotations of its results."""
        ...


def materialize(
    function: Function,
    knowledge: Knowledge,
    constants: dict[str, Constant],
    dropped: list[tuple[str, str]],
) -> Function:
    """Drop the bindings that deduction made redundant; `dropped` gets the reasons."""
    live = {v.name for v in function.outputs}
    casts = any(isinstance(b.expr, MatchCast) for b in function.body)
    needed: set[str] = set().union(*(symbols_in(v.type) for v in function.outputs))
    inner = False  # whether a body below sees our symbols
    remaining: list[Binding] = []
    removed: list[tuple[str, str]] = []
    for binding in reversed(function.body):
        is_live = any(v.name in live for v in binding.vars)
        defines = defined_by(binding) if casts else frozenset()
        defines_needed = defines & needed or (inner and defines)
        if not is_live and not defines_needed and not is_check(binding):
            reason = SHAPES if any(knowledge.was_folded(v) for v in binding.vars) else DEAD
            removed += [(o, reason) for o in sorted(binding.origin)]
            continue
        # folded by a library
        computed = bool(binding.vars) and all(v.name in constants for v in binding.vars)
        value = binding if computed else _known_value(binding, knowledge)
        if isinstance(value, Constant):
            constants[binding.var.name] = value
        if computed or isinstance(value, Constant):
            removed += [(o, CONSTANT) for o in sorted(binding.origin)]
            continue
        remaining.append(value)
        live.update(v.name for v in value.reads)
        if casts:
            needed |= needed_by(value)
            inner = inner or isinstance(value.expr, Branch | Loop | Gradient)
    remaining_origins = {o for b in remaining for o in b.origin}
    dropped += [(o, reason) for o, reason in reversed(removed) if o not in remaining_origins]
    return replace(function, body=tuple(reversed(remaining)))


def _known_value(binding: Binding, knowledge: Knowledge) -> Binding | Constant:
    """Return a constant or a `ShapeOf` for an operator whose elements are known."""
    if not isinstance(binding.expr, OpCall) or len(binding.vars) != 1:
        return binding
    elements, type = knowledge.elements.get(binding.var.name), binding.var.type
    if elements is None or not isinstance(type, Tensor):
        return binding
    if all_integers(elements):
        return Constant(
            np.array(elements.tolist(), numpy_dtype(type.element)).reshape(elements.shape)
        )
    if type.dtype == "int64" and elements.ndim <= 1:
        dims = tuple(elements.reshape(-1).tolist())
        return replace(binding, expr=ShapeOf(dims, elements.ndim))
    return binding
