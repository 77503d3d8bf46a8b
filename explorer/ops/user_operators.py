"""User-defined operators: records beside those of ONNX, with checked rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from explorer.errors import BadOperator, BadOption, IronworksError
from explorer.ir.calls import KernelCall
from explorer.ir.types import Tensor
from explorer.ops import RECORDS, put_record, take_record
from explorer.ops.arithmetic.broadcast import ImpliedBound, Unprovable
from explorer.ops.kernels.verify_kernel import verify_kernel
from explorer.ops.lowering import Lowering
from explorer.ops.record import OperatorRecord
from explorer.ops.reference.cancellation import cancelling_user_code
from explorer.ops.site import Site
from explorer.sandbox.line import at_line

MOST_CHARACTERS = 200  # of a message from user code
EXPECTED_ERRORS = (IronworksError, Unprovable, ImpliedBound)  # errors that a rule may raise


@dataclass(frozen=True, slots=True)
class UserOperator:
    """A record as the user registered it, and its operator domain in ONNX files."""

    record: OperatorRecord
    domain: str


_own: dict[str, UserOperator] = {}


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
            try_="explorer.ops.arithmetic.elementwise.unary makes one of an expression",
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


def forget(name: str) -> None:
    """Unregister an operator; raise BadOption if it is not a user's operator."""
    if name not in _own:
        registered = ", ".join(_own) or "none"
        raise BadOption(
            f"no operator of your own is named {name!r}", where=name, expected=registered
        )
    del _own[name]
    take_record(name)


@contextmanager
def rollback_on_error() -> Iterator[None]:
    """Undo the registrations in the block if it raises."""
    registered = dict(_own)
    try:
        yield
    except BaseException:
        for name in list(_own):
            forget(name)
        for own in registered.values():
            register(own.record, own.domain)
        raise


def _checked_record(record: OperatorRecord) -> OperatorRecord:
    """Return the record with checks around each rule.

    BadOperator is raised if a rule raises or returns an invalid value.
    """
    name = record.name

    def deduce(site: Site) -> tuple[Tensor, ...]:
        types = _call_rule(name, "deduce", record.deduce, site)
        fits = isinstance(types, tuple) and all(isinstance(t, Tensor) for t in types)
        if not fits or len(types) != site.results:
            _bad(
                name,
                "deduce",
                f"returned {_shown(types)}, not {site.results} annotations in a tuple",
            )
        return tuple(types)

    def reference(attrs: Mapping[str, Any], args: Sequence[Any]) -> Any:
        values = _call_rule(name, "reference", record.reference, attrs, args)
        for value in values if isinstance(values, tuple) else (values,):
            if not isinstance(value, np.ndarray | np.generic):
                _bad(name, "reference", f"returned {_shown(value)}, not an array")
        return values

    def lower(low: Lowering) -> None:
        _call_rule(name, "lower", record.lower, low)
        bound = {v.name: v.type for b in low.bindings for v in b.vars}
        for result in low.results:
            if low.is_read(result.name) and result.name not in bound:
                _bad(name, "lower", f"does not bind {result.name!r}")
        for binding in low.bindings:
            if isinstance(binding.expr, KernelCall):
                kernel = binding.expr.kernel
                try:
                    verify_kernel(kernel, "its kernel")
                except Exception as problem:  # checking a broken kernel may raise anything
                    _bad(name, "lower", f"bound an invalid kernel: {_words(problem)}")

    return replace(record, deduce=deduce, reference=reference, lower=lower)


def _call_rule(name: str, rule: str, call: Callable[..., Any], *args: Any) -> Any:
    try:
        with cancelling_user_code(f"the operator {name!r}"):
            return call(*args)
    except EXPECTED_ERRORS:  # Cancelled among them
        raise
    except (Exception, SystemExit) as problem:  # a user's code may raise anything
        words = f"{_words(problem)}{at_line(problem)}"
        raise BadOperator(
            f"the operator {name!r} failed in its rule {rule!r}: {words}", where=name
        ) from problem


def _words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:MOST_CHARACTERS]}"


def _bad(name: str, rule: str, words: str) -> NoReturn:
    raise BadOperator(f"the operator {name!r}, in its rule {rule!r}, {words}", where=name)


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
