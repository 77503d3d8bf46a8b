"""Operators of the user's own: records beside those of ONNX, whose rules are held to their word."""

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
from explorer.ops.reference.cancellation import while_wanted
from explorer.ops.site import Site
from explorer.sandbox.line import at_line

LONGEST = 200  # characters of what somebody else's code says
SAID = (IronworksError, Unprovable, ImpliedBound)  # what a rule may answer


@dataclass(frozen=True, slots=True)
class Own:
    """A record as the user gave it, and the operator domain that it has in ONNX files."""

    record: OperatorRecord
    domain: str


_own: dict[str, Own] = {}


def own_operators() -> Mapping[str, Own]:
    """The operators that were registered, by name."""
    return MappingProxyType(_own)


def is_own(name: str, domain: str) -> bool:
    """Whether an operator of a domain in an ONNX file is one of these."""
    return name in _own and bool(domain) and _own[name].domain == domain


def register(record: OperatorRecord, domain: str = "") -> None:
    """Make an operator known; a later one of the same name takes its place.

    Raises BadOption where it is no record, or has the name of one of ONNX's.
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
            f"{name!r} is an operator of ONNX: give yours another name, and put it in the place of "
            "that one by a pass",
            where=name,
        )
    if not isinstance(domain, str) or len(domain) > 64 or not domain.isprintable():
        raise BadOption(f"the domain of {name!r} is a word", where=name, found=str(domain)[:64])
    for rule in ("deduce", "reference", "lower"):
        if not callable(getattr(record, rule)):
            raise BadOption(f"the operator {name!r} has no rule {rule!r}", where=name)
    _own[name] = Own(record, domain)
    put_record(_held(record))


def forget(name: str) -> None:
    """The operator is not known any more; BadOption where it is none of one's own."""
    if name not in _own:
        known = ", ".join(_own) or "none"
        raise BadOption(f"no operator of your own is named {name!r}", where=name, expected=known)
    del _own[name]
    take_record(name)


@contextmanager
def restored() -> Iterator[None]:
    """What is registered inside stays, unless something is raised there."""
    known = dict(_own)
    try:
        yield
    except BaseException:
        for name in list(_own):
            forget(name)
        for own in known.values():
            register(own.record, own.domain)
        raise


def _held(record: OperatorRecord) -> OperatorRecord:
    """The record with each rule checked: BadOperator where it raises, or gives what it must not."""
    name = record.name

    def deduce(site: Site) -> tuple[Tensor, ...]:
        found = _asked(name, "deduce", record.deduce, site)
        fits = isinstance(found, tuple) and all(isinstance(t, Tensor) for t in found)
        if not fits or len(found) != site.results:
            _bad(name, "deduce", f"gave {_shown(found)}, not {site.results} annotations in a tuple")
        return tuple(found)

    def reference(attrs: Mapping[str, Any], args: Sequence[Any]) -> Any:
        found = _asked(name, "reference", record.reference, attrs, args)
        for value in found if isinstance(found, tuple) else (found,):
            if not isinstance(value, np.ndarray | np.generic):
                _bad(name, "reference", f"gave {_shown(value)}, not an array")
        return found

    def lower(low: Lowering) -> None:
        _asked(name, "lower", record.lower, low)
        made = {v.name: v.type for b in low.bindings for v in b.vars}
        for result in low.results:
            if low.is_read(result.name) and result.name not in made:
                _bad(name, "lower", f"binds no {result.name!r}")
        for binding in low.bindings:
            if isinstance(binding.expr, KernelCall):
                kernel = binding.expr.kernel
                try:
                    verify_kernel(kernel, "its kernel")
                except Exception as problem:  # what checking a broken kernel meets is open
                    _bad(name, "lower", f"made no kernel: {_words(problem)}")

    return replace(record, deduce=deduce, reference=reference, lower=lower)


def _asked(name: str, rule: str, ask: Callable[..., Any], *args: Any) -> Any:
    try:
        with while_wanted(f"the operator {name!r}"):
            return ask(*args)
    except SAID:  # Cancelled is one of ours
        raise
    except (Exception, SystemExit) as problem:  # a user's code may raise anything
        words = f"{_words(problem)}{at_line(problem)}"
        raise BadOperator(
            f"the operator {name!r} failed in its rule {rule!r}: {words}", where=name
        ) from problem


def _words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:LONGEST]}"


def _bad(name: str, rule: str, words: str) -> NoReturn:
    raise BadOperator(f"the operator {name!r}, in its rule {rule!r}, {words}", where=name)


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
