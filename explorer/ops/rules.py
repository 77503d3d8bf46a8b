"""What stands before and around every rule of an operator: what the user gave is refused before a
rule is asked, so that whatever else a rule raises is a fault of ours, which names the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import onnx

from explorer.errors import IronworksError
from explorer.ir.dtypes import HOST_DTYPES, ITEM_BYTES
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import ImpliedBound, Unprovable
from explorer.ops.dtypes import check_dtypes
from explorer.ops.own_operators import own_operators
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Site

FIRST = 7  # version of the operator set that is accepted
SAID = (IronworksError, Unprovable, ImpliedBound)  # what a rule may answer
KINDS = {
    "INT": "an integer of 64 bits",
    "FLOAT": "a number",
    "STRING": "a string",
    "INTS": "a row of integers of 64 bits",
    "DIMS": "an integer of 64 bits or a row of them",
    "FLOATS": "a row of numbers",
    "STRINGS": "a row of strings",
    "NUMBERS": "a number or a row of numbers",
    "DTYPE": "an element type such as float32",
}
OWN_KINDS = {  # attributes that are of another kind here than in ONNX's files
    ("Cast", "to"): "DTYPE",
    ("EyeLike", "dtype"): "DTYPE",
    ("ConstantOfShape", "dtype"): "DTYPE",
    ("ConstantOfShape", "value"): "FLOAT",
    ("Range", "dtype"): "DTYPE",
}


@contextmanager
def in_rule(site: Site) -> Iterator[None]:
    """What is no answer of a rule gets a note that names the operator: a fault of ours."""
    try:
        yield
    except SAID:
        raise
    except Exception as problem:
        problem.add_note(f"the rule of {site.op} at {site.where!r}")
        raise


def check_site(record: OperatorRecord, site: Site) -> None:
    """After: the arguments that the operator must have are given, none is given that it has not,
    their dtypes and ranks are allowed, and every attribute that it must have is of its kind.

    Raises ShapeError or DtypeError, which says what was expected.
    """
    check_dtypes(site)
    if record.name in own_operators():
        return  # its form is what its own rule says
    _check_arguments(record, site)
    _check_ranks(record, site)
    kinds, required = _attributes(record.name, tuple(record.by_value.items()))
    for name, value in site.attrs.items():
        kind = kinds.get(name)
        if kind is not None and value is not None and not _fits(kind, value):
            site.fail(
                f"the attribute {name!r} must be {KINDS[kind]}, and is {value!r}",
                expected=KINDS[kind],
                found=repr(value),
                try_=f"{name} as {KINDS[kind]}",
            )
    for name in required:
        if site.attrs.get(name) is None:
            site.fail(
                f"the attribute {name!r} is missing", expected=KINDS[kinds[name]], try_=f"{name}=…"
            )


def _check_arguments(record: OperatorRecord, site: Site) -> None:
    """Between as few and as many arguments and results as ONNX's schema says."""
    form = _arguments(record.name)
    if form is None:
        return
    fewest, names, results = form
    if names is not None and len(site.args) > len(names):
        site.fail(
            f"takes {len(names)} arguments, and is given {len(site.args)}",
            expected=", ".join(names),
            found=len(site.args),
            try_=f"at most {len(names)} arguments",
        )
    if site.results > results:
        site.fail(f"gives {results} results, and {site.results} are wanted", expected=results)
    for i, name in record.by_value.items():
        if site.has(i) and site.attrs.get(name) is not None:
            site.fail(f"is given {name!r} twice, as argument {i} and as an attribute", try_="one")
    rewritten = record.run_time is not None and record.run_time.marked in site.attrs
    for i in fewest:
        read = i in record.by_value
        if site.has(i) or (read and (rewritten or site.attrs.get(record.by_value[i]) is not None)):
            continue
        word = names[i] if names is not None else str(i)
        site.fail(
            f"needs its argument {word!r} at position {i}", expected=word, try_=f"give it {word!r}"
        )


def _check_ranks(record: OperatorRecord, site: Site) -> None:
    """What is read when compiling is a number or a row; other ranks are what the record says."""
    rows = dict.fromkeys(record.by_value, (0, 1))
    for i, (low, high) in {**rows, **record.ranks}.items():
        if not site.has(i) or not isinstance(site.arg(i).type, Tensor):
            continue
        rank = len(site.shape(i))
        if rank < low or (high is not None and rank > high):
            bounds = f"{low} or more" if high is None else f"{low} to {high}"
            allowed = str(low) if low == high else bounds
            site.fail(
                f"argument {i} must be of rank {allowed}, and is of rank {rank}",
                expected=f"rank {allowed}",
                found=f"rank {rank}",
                try_="a Reshape before it",
            )


def _schema(op: str) -> Any:
    """What ONNX says of an operator, in whichever of its domains; None where it has none."""
    for domain in ("", "ai.onnx.preview.training"):
        if onnx.defs.has(op, domain):
            return onnx.defs.get_schema(op, domain)
    return None


@lru_cache(maxsize=1024)
def _arguments(op: str) -> tuple[tuple[int, ...], tuple[str, ...] | None, int] | None:
    """The positions that must be given, the names of all (None where there may be any number), and
    the most results; None for an operator that ONNX has not.
    """
    schema, kinds = _schema(op), onnx.defs.OpSchema.FormalParameterOption
    if schema is None:
        return None
    several = any(f.option == kinds.Variadic for f in schema.inputs)
    fewest = tuple(i for i, f in enumerate(schema.inputs) if f.option != kinds.Optional)
    names = None if several else tuple(f.name for f in schema.inputs)
    versions = range(FIRST, schema.since_version) if not schema.domain else ()
    older = [onnx.defs.get_schema(op, v).max_output for v in versions if _is_known(op, v)]
    results = max((schema.max_output, *older))  # BatchNormalization had five
    return fewest if not several else tuple(range(schema.min_input)), names, results


def _is_known(op: str, version: int) -> bool:
    return bool(onnx.defs.has(op, version))


@lru_cache(maxsize=1024)
def _attributes(
    op: str, by_value: tuple[tuple[int, str], ...]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The kind of each attribute, and those that must be there."""
    kinds: dict[str, str] = dict.fromkeys((name for _, name in by_value), "NUMBERS")
    required: list[str] = []
    schema = _schema(op)
    if schema is not None:
        for i, name in by_value:
            whole = not any("float" in kind for kind in schema.inputs[i].types)
            kinds[name] = "DIMS" if whole else "NUMBERS"
        for name, known in schema.attributes.items():
            kinds[name] = OWN_KINDS.get((op, name), known.type.name)
            if known.required:
                required.append(name)
    kinds |= {name: kind for (of, name), kind in OWN_KINDS.items() if of == op}
    return {n: k for n, k in kinds.items() if k in KINDS}, tuple(required)


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "INT":
            return _is_whole(value)
        case "FLOAT":
            return isinstance(value, bool | int | float)
        case "STRING":
            return isinstance(value, str)
        case "DTYPE":
            return isinstance(value, str) and value in (*ITEM_BYTES, *HOST_DTYPES)
    row = value if isinstance(value, tuple) else (value,)
    match kind:
        case "INTS":
            return isinstance(value, tuple) and all(map(_is_dim, row))
        case "DIMS":
            return all(map(_is_dim, row))
        case "FLOATS":
            return isinstance(value, tuple) and all(isinstance(v, int | float) for v in row)
        case "STRINGS":
            return isinstance(value, tuple) and all(isinstance(v, str) for v in row)
    return all(_is_dim(v) or isinstance(v, float) for v in row)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _is_dim(value: Any) -> bool:
    return is_symbolic(value) or (_is_whole(value) and not isinstance(value, bool))
