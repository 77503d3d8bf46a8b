"""Graph patterns: operators over wildcards, matched backwards from the last binding.

`op("Mul", x, op("Sigmoid", x))` with `x = wild("x")` matches `s = Sigmoid(h); y = Mul(h, s)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.ir.calls import AttrValue, OpCall, Var
from explorer.ir.program import Binding, Constant

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum"})
TOLERANCE_SHARE = 1e-5  # of a number: an exporter writes 1.4142135 and 1.41421354; chosen


@dataclass(frozen=True, slots=True)
class Wild:
    """A wildcard; all uses of its name match the same value."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element with this value."""

    value: float


@dataclass(frozen=True, slots=True)
class Op:
    """The result of an operator.

    `args` None matches all its arguments, omitted ones too; `attrs` must be equal.
    """

    op: str
    args: tuple[Pattern, ...] | None = None
    attrs: tuple[tuple[str, AttrValue], ...] = ()


Pattern: TypeAlias = Wild | Number | Op


def wild(name: str) -> Wild:
    """Return a wildcard with a name."""
    return Wild(name)


def number(value: float) -> Number:
    """Return a pattern for a constant of one element."""
    return Number(value)


def op(name: str, *args: Pattern | str | float, **attrs: AttrValue) -> Op:
    """Return a pattern for an operator's result.

    A string is a wildcard, a number a constant; without arguments any arguments match.
    """
    operands = tuple(_pattern(a) for a in args)
    return Op(name, operands or None, tuple(sorted(attrs.items())))


def _pattern(arg: Pattern | str | float) -> Pattern:
    match arg:
        case str():
            return Wild(arg)
        case int() | float():
            return Number(float(arg))
        case _:
            return arg


@dataclass(frozen=True, slots=True)
class Match:
    """A match: its bindings, the values of the wildcards, and the attributes.

    The bindings run from the last to the first; the values are in the order of the wildcards in the
    pattern; the attributes are those of all operators.
    """

    bindings: tuple[Binding, ...]
    args: tuple[Var | None, ...]
    attrs: tuple[tuple[str, AttrValue], ...]

    @property
    def root(self) -> Binding:
        """The binding that the pattern ends in."""
        return self.bindings[0]

    @property
    def inner(self) -> tuple[Binding, ...]:
        """The bindings other than the root."""
        return self.bindings[1:]


@dataclass(frozen=True, slots=True)
class _PartialMatch:
    """A partial match."""

    bindings: tuple[Binding, ...] = ()
    wild: tuple[tuple[str, Var | None], ...] = ()


def find(
    pattern: Op,
    root: Binding,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[Match]:
    """Yield every match that ends in a binding; commutative operators match in both orders."""
    for partial in _operator(pattern, root, _PartialMatch(), makers, constants):
        attrs: dict[str, AttrValue] = {}
        for binding in partial.bindings:
            attrs = dict(binding.op_call.attrs) | attrs
        args = tuple(v for _, v in partial.wild)
        yield Match(partial.bindings, args, tuple(attrs.items()))


def _operator(
    pattern: Op,
    binding: Binding,
    partial: _PartialMatch,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_PartialMatch]:
    call = binding.expr
    if not isinstance(call, OpCall) or call.op != pattern.op:
        return
    if any(call.attr(name) != value for name, value in pattern.attrs):
        return
    bindings = partial.bindings
    if binding not in bindings:
        bindings = (*bindings, binding)
    if pattern.args is None:
        count = len(partial.wild)
        wild = (*partial.wild, *((f"argument {count + i}", a) for i, a in enumerate(call.args)))
        yield _PartialMatch(bindings, wild)
        return
    if len(call.args) != len(pattern.args):
        return
    orders = [call.args]
    if pattern.op in COMMUTATIVE and len(call.args) == 2:
        orders.append(call.args[::-1])
    for args in orders:
        yield from _all(
            pattern.args, args, _PartialMatch(bindings, partial.wild), makers, constants
        )


def _all(
    patterns: tuple[Pattern, ...],
    args: tuple[Var | None, ...],
    partial: _PartialMatch,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_PartialMatch]:
    if not patterns:
        yield partial
        return
    for first in _value(patterns[0], args[0], partial, makers, constants):
        yield from _all(patterns[1:], args[1:], first, makers, constants)


def _value(
    pattern: Pattern,
    var: Var | None,
    partial: _PartialMatch,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_PartialMatch]:
    match pattern:
        case Wild(name):
            wildcards = dict(partial.wild)
            if name not in wildcards:
                yield _PartialMatch(partial.bindings, (*partial.wild, (name, var)))
            elif wildcards[name] == var:
                yield partial
        case Number(value):
            constant = None if var is None else constants.get(var.name)
            if constant is not None and _is_number(constant.array, value):
                yield partial
        case Op():
            maker = None if var is None else makers.get(var.name)
            if maker is not None:
                yield from _operator(pattern, maker, partial, makers, constants)


def _is_number(array: np.ndarray, value: float) -> bool:
    if array.size != 1 or array.dtype.kind not in "fiu":
        return False
    actual = float(array.item())
    return abs(actual - value) <= TOLERANCE_SHARE * max(1.0, abs(value)) if value else actual == 0.0
