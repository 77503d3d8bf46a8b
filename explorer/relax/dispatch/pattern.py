"""Graph patterns: operators over wildcards, matched backwards from the binding they end in.

op("Mul", x, op("Sigmoid", x)) with x = wild("x") matches `s = Sigmoid(h); y = Mul(h, s)`.
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
    """Any value; the same value wherever the name stands."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element with this value."""

    value: float


@dataclass(frozen=True, slots=True)
class Op:
    """The result of an operator. `args` None takes all its arguments, left out ones too; `attrs`
    are those that must be as given.
    """

    op: str
    args: tuple[Pattern, ...] | None = None
    attrs: tuple[tuple[str, AttrValue], ...] = ()


Pattern: TypeAlias = Wild | Number | Op


def wild(name: str) -> Wild:
    """Any value, under a name."""
    return Wild(name)


def number(value: float) -> Number:
    """A constant of one element."""
    return Number(value)


def op(name: str, *args: Pattern | str | float, **attrs: AttrValue) -> Op:
    """An operator's result; a string is a wildcard, a number a constant, no arguments means any."""
    made = tuple(_pattern(a) for a in args)
    return Op(name, made or None, tuple(sorted(attrs.items())))


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
    """Where a pattern was found: the bindings from the last to the first, what the wildcards are in
    the order in which the pattern names them, and the attributes of all operators.
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
        """The others."""
        return self.bindings[1:]


@dataclass(frozen=True, slots=True)
class _Found:
    """A match that grows."""

    bindings: tuple[Binding, ...] = ()
    wild: tuple[tuple[str, Var | None], ...] = ()


def find(
    pattern: Op,
    root: Binding,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[Match]:
    """Every way in which a binding ends a pattern; commutative operators match both ways."""
    for found in _operator(pattern, root, _Found(), makers, constants):
        attrs: dict[str, AttrValue] = {}
        for binding in found.bindings:
            attrs = dict(binding.op_call.attrs) | attrs
        args = tuple(v for _, v in found.wild)
        yield Match(found.bindings, args, tuple(attrs.items()))


def _operator(
    pattern: Op,
    binding: Binding,
    found: _Found,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_Found]:
    call = binding.expr
    if not isinstance(call, OpCall) or call.op != pattern.op:
        return
    if any(call.attr(name) != value for name, value in pattern.attrs):
        return
    bindings = found.bindings
    if binding not in bindings:
        bindings = (*bindings, binding)
    if pattern.args is None:
        count = len(found.wild)
        wild = (*found.wild, *((f"argument {count + i}", a) for i, a in enumerate(call.args)))
        yield _Found(bindings, wild)
        return
    if len(call.args) != len(pattern.args):
        return
    orders = [call.args]
    if pattern.op in COMMUTATIVE and len(call.args) == 2:
        orders.append(call.args[::-1])
    for args in orders:
        yield from _all(pattern.args, args, _Found(bindings, found.wild), makers, constants)


def _all(
    patterns: tuple[Pattern, ...],
    args: tuple[Var | None, ...],
    found: _Found,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_Found]:
    if not patterns:
        yield found
        return
    for first in _value(patterns[0], args[0], found, makers, constants):
        yield from _all(patterns[1:], args[1:], first, makers, constants)


def _value(
    pattern: Pattern,
    var: Var | None,
    found: _Found,
    makers: Mapping[str, Binding],
    constants: Mapping[str, Constant],
) -> Iterator[_Found]:
    match pattern:
        case Wild(name):
            known = dict(found.wild)
            if name not in known:
                yield _Found(found.bindings, (*found.wild, (name, var)))
            elif known[name] == var:
                yield found
        case Number(value):
            constant = None if var is None else constants.get(var.name)
            if constant is not None and _is_number(constant.array, value):
                yield found
        case Op():
            maker = None if var is None else makers.get(var.name)
            if maker is not None:
                yield from _operator(pattern, maker, found, makers, constants)


def _is_number(array: np.ndarray, value: float) -> bool:
    if array.size != 1 or array.dtype.kind not in "fiu":
        return False
    found = float(array.item())
    return abs(found - value) <= TOLERANCE_SHARE * max(1.0, abs(value)) if value else found == 0.0
