"""Names of attributes that the rules of an operator read: a misspelt one would be ignored.

ONNX's schemas list them for its operators. The rules of a user's operator are searched for the name
as a word of their code: rules may read an attribute only for some arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import onnx

from explorer.errors import did_you_mean
from explorer.ops.record import OperatorRecord

MOST_FUNCTIONS = 500  # that are searched: of more, any name may be read; chosen
CALL = "__call__"
WHOLE = frozenset({"items", "keys", "values", "dict", "sorted", "list"})  # may read every attribute
FOREIGN = sys.stdlib_module_names | {"numpy", "onnx", "ml_dtypes", "scipy", "torch"}
"""Packages whose functions read no attributes."""


def unknown_attribute(
    record: OperatorRecord, attrs: Mapping[str, Any], seen: Collection[str] = ()
) -> str:
    """Return in words which attribute no rule of the operator reads, "" if all are read.

    Names that were `seen` in the same operator are known.
    """
    unknown = attrs.keys() - {"domain", "opset"} - set(seen)
    if not unknown:
        return ""
    unknown -= names_in_onnx(record.name)
    unknown -= {*record.by_value.values(), "dtype"}
    if not unknown:
        return ""
    in_code = _names_in_code(record)
    unknown -= unknown if in_code is None else in_code
    if not unknown:
        return ""
    name = min(unknown)
    readable = sorted({*names_in_onnx(record.name), *(in_code or ())})
    near = did_you_mean(name, readable)
    return f"{record.name} has no attribute {name!r}: none of its rules reads it{near}"


@lru_cache(maxsize=1024)
def names_in_onnx(op: str) -> frozenset[str]:
    """Return the attributes that any version of ONNX's operator has."""
    names: set[str] = set()
    for domain in ("", "ai.onnx.preview.training"):
        version = onnx.defs.onnx_opset_version() if not domain else 1
        while version and onnx.defs.has(op, version, domain):
            schema = onnx.defs.get_schema(op, version, domain)
            names |= schema.attributes.keys()
            version = schema.since_version - 1
    return frozenset(names)


def _names_in_code(record: OperatorRecord) -> set[str] | None:
    """Return every word in the code of an operator's rules; None if it may read any attribute."""
    names: set[str] = set()
    todo: list[Any] = [record.deduce, record.reference, record.lower, record.fold, record.run_time]
    visited: dict[int, Any] = {}  # by id, so that none is freed meanwhile
    while todo:
        thing = todo.pop()
        if id(thing) in visited:
            continue
        visited[id(thing)] = thing
        if len(visited) > MOST_FUNCTIONS:
            return None
        if isinstance(thing, FunctionType):
            for code in _codes(thing.__code__):
                if WHOLE.intersection(code.co_names) and not _is_shipped(thing):
                    return None
                names |= {c for c in code.co_consts if isinstance(c, str)}
        todo += _callees(thing)
    return {n for n in names if n.isidentifier()}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_shipped(function: Callable[..., Any]) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "explorer"


def _callees(thing: Any) -> Iterator[Any]:
    """Yield what a rule may call: what it holds, and the functions that it names."""
    match thing:
        case FunctionType():
            for cell in thing.__closure__ or ():
                if cell.cell_contents is not None:
                    yield cell.cell_contents
            yield from thing.__defaults__ or ()
            yield from _globals(thing)
        case MethodType():
            yield from (thing.__func__, thing.__self__)
        case partial():
            yield from (thing.func, *thing.args, *thing.keywords.values())
        case tuple() | list():
            yield from (v for v in thing if callable(v) or is_dataclass(v))
        case dict():
            yield from (v for v in thing.values() if callable(v))
        case _ if is_dataclass(thing) and not isinstance(thing, type):
            yield from (getattr(thing, f.name) for f in fields(thing))
            yield getattr(type(thing), CALL, None)
        case _ if callable(thing) and not isinstance(thing, type):
            yield getattr(type(thing), CALL, None)


def _globals(function: FunctionType) -> Iterator[Any]:
    """Yield the functions that a function names, also as attributes of modules that it names."""
    for code in _codes(function.__code__):
        values = [function.__globals__.get(n) for n in code.co_names]
        modules = [v for v in values if isinstance(v, ModuleType)]
        values += [vars(m).get(n) for m in modules for n in code.co_names]
        for value in values:
            if isinstance(value, FunctionType):
                room = str(value.__module__).partition(".")[0]
                if room not in FOREIGN:
                    yield value
