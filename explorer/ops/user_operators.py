"""User-defined operators: records beside those of ONNX, with checked rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from explorer.errors import (
    BadOperator,
    BadOption,
    IronworksError,
    TraceError,
    UnsupportedOperator,
    did_you_mean,
)
from explorer.ir.calls import AttrValue, KernelCall, Var
from explorer.ir.dims import ShapeEnv, is_symbolic
from explorer.ir.dtypes import HOST_DTYPES, ITEM_BYTES, dtype_of
from explorer.ir.text.text_tokens import print_type
from explorer.ir.types import Tensor
from explorer.ops import RECORDS, put_record, take_record
from explorer.ops.lowering import Lowering
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.shape_rules import ImpliedBound, Unprovable
from explorer.ops.verify_kernel import verify_kernel
from explorer.plain_text import counted
from explorer.process.user_code import Registry, a, describe_error, shown, user_code

MOST_VALUES = 64  # integers of an argument that a shape rule may read; chosen
OUTSIDE = "a Read with a fill may lie outside"
EXPECTED_ERRORS = (IronworksError, Unprovable, ImpliedBound)  # errors that a rule may raise


@dataclass(frozen=True, slots=True)
class UserOperator:
    """A record as the user registered it, and its operator domain in ONNX files."""

    record: OperatorRecord
    domain: str


def _put_back() -> None:
    """Make the records those of the registered operators again."""
    for name in _records - _own.keys():
        take_record(name)
    _records.clear()
    for own in list(_own.values()):
        register(own.record, own.domain)


_own = Registry[UserOperator](_put_back)
_records: set[str] = set()  # names that have a record


def user_operators() -> Mapping[str, UserOperator]:
    """Return the registered operators, by name."""
    return MappingProxyType(_own)


def is_user_operator(name: str, domain: str) -> bool:
    """Return True if an operator of a domain in an ONNX file is registered."""
    return name in _own and bool(domain) and _own[name].domain == domain


def register(record: OperatorRecord, domain: str = "") -> None:
    """Register an operator; a later one of the same name replaces it.

    Raises BadOption if it is no record, or has the name of an ONNX operator.
    """
    if not isinstance(record, OperatorRecord):
        raise BadOption(
            f"an operator is an OperatorRecord, not {type(record).__name__}",
            where="explorer.operator",
            try_="explorer.ops.elementwise.unary makes one of an expression",
        )
    name = record.name
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) <= 64):
        raise BadOption(f"an operator's name is a word, found {str(name)[:64]!r}", where="operator")
    if name in RECORDS and name not in _own:
        raise BadOption(
            f"{name!r} is an operator of ONNX: give yours another name, and replace "
            "that one in a pass",
            where=name,
        )
    if not isinstance(domain, str) or len(domain) > 64 or not domain.isprintable():
        raise BadOption(f"the domain of {name!r} is a word", where=name, actual=str(domain)[:64])
    for rule in ("deduce", "reference", "lower"):
        if not callable(getattr(record, rule)):
            raise BadOption(f"the operator {name!r} has no rule {rule!r}", where=name)
    _own[name] = UserOperator(record, domain)
    put_record(_checked_record(record))
    _records.add(name)


def forget(name: str) -> None:
    """Unregister an operator; raise BadOption if it is not a user's operator."""
    if name not in _own:
        registered = ", ".join(_own) or "none"
        raise BadOption(
            f"no operator of your own is named {name!r}", where=name, expected=registered
        )
    del _own[name]
    take_record(name)
    _records.discard(name)


def _checked_record(record: OperatorRecord) -> OperatorRecord:
    """Return the record with checks around each rule.

    BadOperator is raised if a rule raises or returns an invalid value.
    """
    from explorer.ops.attribute_names import unknown_attribute  # only where an operator is added
    from explorer.ops.symbolic_accesses import find_outside_access

    name, lowering = record.name, _lowering_word(record)

    def deduce(site: Site) -> tuple[Tensor, ...]:
        if why := unknown_attribute(record, site.attrs):
            site.fail(why, try_="another name, or site.attrs.get(name) in a rule that ignores it")
        types = _call_rule(name, "deduce", record.deduce, site)
        expected = counted(site.results, "annotation")
        fits = isinstance(types, tuple) and all(isinstance(t, Tensor) for t in types)
        if not fits:
            _bad(name, "deduce", f"returned {a(types)}, not {expected} in a tuple")
        if len(types) != site.results:
            _bad(name, "deduce", f"returned {len(types)} annotations, not {expected} in a tuple")
        for type in types:
            if why := _type_problem(type):
                _bad(name, "deduce", why)
        return tuple(types)

    def reference(attrs: Mapping[str, Any], args: Sequence[Any]) -> Any:
        types = deduced_types(record, attrs, args)  # first: it says which arguments do not fit
        values = _call_rule(name, "reference", record.reference, attrs, args)
        results = values if isinstance(values, tuple) else (values,)
        for value in results:
            if not isinstance(value, np.ndarray | np.generic):
                _bad(name, "reference", f"returned {a(value)}, not an array")
        if types is not None and len(types) == len(results):
            for value, type in zip(results, types):
                actual = Tensor(value.shape, dtype_of(value))
                if (actual.dims, actual.dtype) != (type.dims, type.dtype):
                    stated = f"its rule 'deduce' says {print_type(type)}"
                    _bad(name, "reference", f"returned {print_type(actual)}, and {stated}")
        return values

    def lower(low: Lowering) -> None:
        _call_rule(name, lowering, record.lower, low)
        bound = {v.name: v.type for b in low.bindings for v in b.vars}
        for result in low.results:
            if low.is_read(result.name) and result.name not in bound:
                _bad(name, lowering, f"does not bind {result.name!r}")
        for binding in low.bindings:
            if isinstance(binding.expr, KernelCall):
                kernel = binding.expr.kernel
                try:
                    verify_kernel(kernel, "its kernel")
                except Exception as problem:  # checking a broken kernel may raise anything
                    _bad(name, lowering, f"bound an invalid kernel: {describe_error(problem)}")
                why = find_outside_access(kernel, low.site.env)
                if why:
                    _bad(name, lowering, f"bound an invalid kernel: it {why}; {OUTSIDE}")

    return replace(record, deduce=deduce, reference=reference, lower=lower)


def _lowering_word(record: OperatorRecord) -> str:
    """Return the word for the rule that makes loops: the user wrote the `body` of a `unary`."""
    home, name = (getattr(record.lower, n, "") for n in ("__module__", "__qualname__"))
    is_body = home == "explorer.ops.elementwise" and name.startswith("unary.")
    return "body" if is_body else "lower"


def _type_problem(type: Tensor) -> str:
    """Return what is wrong with the parts of a deduced type, "" if they are of their kinds."""
    for dim in type.shape or ():
        if not (isinstance(dim, int | np.integer) or is_symbolic(dim)) or isinstance(dim, bool):
            return (
                f"returned the dim {shown(dim)} ({a(dim)}): a dim is an integer, or an expression "
                "over those of site.shape()"
            )
    if type.dtype is not None and type.dtype not in (*ITEM_BYTES, *HOST_DTYPES):
        return f"returned the dtype {shown(type.dtype)}{did_you_mean(str(type.dtype), ITEM_BYTES)}"
    return ""


def plain_attributes(name: str, attrs: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Return the attributes of a call in Python's own values; None stands for the default.

    Raises:
        TraceError: one is neither a number, a string, a bool, nor a row of them.
    """
    return {n: _plain(name, n, value) for n, value in attrs.items() if value is not None}


def _plain(name: str, attribute: str, value: Any) -> AttrValue:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(_plain(name, attribute, v) for v in value)
    if isinstance(value, bool | int | float | str) or is_symbolic(value):
        return value
    raise TraceError(
        f"the attribute {attribute!r} of {name!r} is {shown(value)} ({a(value)}): attributes are "
        "numbers, strings, bools, or rows of them; an array is an argument",
        where=name,
        actual=a(value),
    )


def check_call(
    record: OperatorRecord, attrs: Mapping[str, AttrValue], arrays: Sequence[Any]
) -> None:
    """Check arguments and attributes of a call on arrays as a compilation would.

    The loops are written for them, because `site.number` checks an attribute only there. A form
    that has no loops is left to the reference.
    """
    site = _site(record, attrs, arrays)
    try:
        types = record.deduce(site)
        results = tuple(Var(f"y{i}", type) for i, type in enumerate(types))
        record.lower(Lowering(site, results, frozenset(), {}, lambda name: True, set()))
    except (Unprovable, ImpliedBound, UnsupportedOperator, BadOperator):
        return


def deduced_types(
    record: OperatorRecord, attrs: Mapping[str, Any], args: Sequence[Any]
) -> tuple[Tensor, ...] | None:
    """Return the types that a user's shape rule deduces for arrays, None if it cannot decide.

    Raises the errors of the rule: of arguments or attributes that do not fit.
    """
    site = _site(record, attrs, args)
    try:
        return tuple(_call_rule(record.name, "deduce", record.deduce, site))
    except (Unprovable, ImpliedBound):
        return None


def _site(record: OperatorRecord, attrs: Mapping[str, Any], args: Sequence[Any]) -> Site:
    """Return the site of an operator on arrays; small integers are known to its rules."""
    types = [None if a is None else Tensor(a.shape, dtype_of(a)) for a in args]
    variables = tuple(None if t is None else Var(f"x{i}", t) for i, t in enumerate(types))
    few = [a is not None and a.dtype.kind in "iub" and a.size <= MOST_VALUES for a in args]
    values = tuple(a.astype(object) if is_few else None for a, is_few in zip(args, few))
    return Site(record.name, record.name, variables, attrs, ShapeEnv(), values)


def _call_rule(name: str, rule: str, call: Callable[..., Any], *args: Any) -> Any:
    def failed(words: str) -> BadOperator:
        return BadOperator(
            f"the operator {name!r} failed in its rule {rule!r}: {words}", where=name
        )

    with user_code(f"the operator {name!r}", failed, EXPECTED_ERRORS):  # Cancelled among them
        return call(*args)


def _bad(name: str, rule: str, words: str) -> NoReturn:
    raise BadOperator(f"the operator {name!r}, in its rule {rule!r}, {words}", where=name)
