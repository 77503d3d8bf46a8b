"""Checks before every operator rule, and context for errors inside one.

Invalid input of the user is refused first. So any other error of a rule is a bug of the compiler,
and its note names the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import onnx

from explorer.errors import DtypeError
from explorer.ir.dims import is_symbolic
from explorer.ir.dtypes import HOST_DTYPES, ITEM_BYTES, DType
from explorer.ir.types import Tensor
from explorer.ops.record import OperatorRecord, Site, code_of
from explorer.ops.user_operators import EXPECTED_ERRORS, user_operators

FIRST = 7  # version of the operator set that is accepted
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
    """Add a note with the operator to unexpected errors of a rule."""
    try:
        yield
    except EXPECTED_ERRORS:
        raise
    except Exception as problem:
        problem.add_note(f"the rule of {site.op} at {site.where!r}")
        raise


def check_site(record: OperatorRecord, site: Site) -> None:
    """Check the arguments and attributes of an operator against its schema.

    After: required arguments are present and no extra ones are, their dtypes and ranks are allowed,
    and every required attribute has its kind. Raises ShapeError or DtypeError, which says what was
    expected.
    """
    check_dtypes(site)
    if record.name in user_operators():
        return  # its own rule checks its form
    _check_arguments(record, site)
    _check_ranks(record, site)
    kinds, required = _attributes(record.name, tuple(record.by_value.items()))
    for name, value in site.attrs.items():
        kind = kinds.get(name)
        if kind is not None and value is not None and not _fits(kind, value):
            site.fail(
                f"the attribute {name!r} must be {KINDS[kind]}, and is {value!r}",
                expected=KINDS[kind],
                actual=repr(value),
                try_=f"{name} as {KINDS[kind]}",
            )
    for name in required:
        if site.attrs.get(name) is None:
            site.fail(
                f"the attribute {name!r} is missing", expected=KINDS[kinds[name]], try_=f"{name}=…"
            )


def _check_arguments(record: OperatorRecord, site: Site) -> None:
    """Check the number of arguments and results against ONNX's schema."""
    form = _arguments(record.name)
    if form is None:
        return
    fewest, names, results = form
    if names is not None and len(site.args) > len(names):
        site.fail(
            f"takes {len(names)} arguments, and gets {len(site.args)}",
            expected=", ".join(names),
            actual=len(site.args),
            try_=f"at most {len(names)} arguments",
        )
    if site.results > results:
        site.fail(f"has {results} results, and {site.results} are requested", expected=results)
    for i, name in record.by_value.items():
        if site.has(i) and site.attrs.get(name) is not None:
            site.fail(f"gets {name!r} twice, as argument {i} and as an attribute", try_="one")
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
    """Check ranks: arguments read when compiling are scalars or vectors; others as recorded."""
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
                actual=f"rank {rank}",
                try_="a Reshape before it",
            )


def _schema(op: str) -> Any:
    """Return ONNX's schema of an operator, in whichever domain, or None."""
    for domain in ("", "ai.onnx.preview.training"):
        if onnx.defs.has(op, domain):
            return onnx.defs.get_schema(op, domain)
    return None


@lru_cache(maxsize=1024)
def _arguments(op: str) -> tuple[tuple[int, ...], tuple[str, ...] | None, int] | None:
    """Return the required positions, all names, and the most results.

    The names are None if the operator is variadic. Return None for an operator that ONNX does not
    have.
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
    """Return the kind of each attribute, and the required ones."""
    kinds: dict[str, str] = dict.fromkeys((name for _, name in by_value), "NUMBERS")
    required: list[str] = []
    schema = _schema(op)
    if schema is not None:
        for i, name in by_value:
            is_integral = not any("float" in kind for kind in schema.inputs[i].types)
            kinds[name] = "DIMS" if is_integral else "NUMBERS"
        for name, attribute in schema.attributes.items():
            kinds[name] = OWN_KINDS.get((op, name), attribute.type.name)
            if attribute.required:
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


# Element types that ONNX allows for an operator's arguments.


def check_dtypes(site: Site) -> None:
    """Raise DtypeError unless ONNX's schema allows these dtypes together."""
    dtypes = tuple(None if a is None else site.dtype(i) for i, a in enumerate(site.args))
    problem = _dtype_problem(site.op, dtypes)
    if problem:
        site.fail(problem, DtypeError)


@lru_cache(maxsize=4096)
def _dtype_problem(op: str, dtypes: tuple[DType | None, ...]) -> str:
    """Return what is wrong with the dtypes, in words, or ""."""
    if not onnx.defs.has(op, ""):
        return ""
    schema = onnx.defs.get_schema(op, "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, DType] = {}
    for i, dtype in enumerate(dtypes):
        if dtype is None or not schema.inputs:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        kinds = allowed.get(formal.type_str, [formal.type_str])
        if _onnx_name(dtype) not in kinds:
            return f"its argument {formal.name!r} must not be {dtype}"
        together = formal.is_homogeneous and formal.type_str in allowed
        if together and bound.setdefault(formal.type_str, dtype) != dtype:
            return (
                f"its argument {formal.name!r} is {dtype} and another is {bound[formal.type_str]}"
            )
    return ""


def _onnx_name(dtype: DType) -> str:
    kind = onnx.TensorProto.DataType.Name(code_of(dtype))
    return f"tensor({kind.lower()})"
