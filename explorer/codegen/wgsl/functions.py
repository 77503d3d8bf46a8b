"""Scalar functions in WGSL, and the functions that shaders declare for them.

WGSL lets an implementation assume that there is no NaN and no infinity. Whatever decides about them
here tests bits, which no such assumption changes: `isnan`, comparisons with infinity, and the NaN
that `max` and `min` propagate. Results of arithmetic on them are those of the hardware.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from explorer.codegen.wgsl.types import ROUNDED, narrow_bits, value_type
from explorer.errors import BadOption
from explorer.ir.dtypes import DType, computed, integer_limits, numpy_dtype
from explorer.ir.scalar_functions import returns_bool

INT_MIN, INT_MAX, UINT_MAX = -(2**31), 2**31 - 1, 2**32 - 1
LARGEST_FLOAT32 = 3.4028234663852886e38
INFINITY_BITS = "0x7f800000u"


@dataclass(frozen=True, slots=True)
class Spelling:
    """The text of a scalar function of named values.

    `{0}`, `{1}` and `{2}` stand for the arguments, `{t}` for their type in WGSL. `integers` and
    `bools` are for other types than floats, where they differ.
    """

    name: str
    floats: str
    integers: str = ""
    bools: str = ""


def _function(name: str) -> Spelling:
    return Spelling(name, f"{name}({{0}})")


def _infix(name: str, sign: str, bools: str = "") -> Spelling:
    return Spelling(name, f"{{0}} {sign} {{1}}", bools=bools)


RECORDS: tuple[Spelling, ...] = (
    _infix("add", "+", "{0} | {1}"),
    _infix("sub", "-", "{0} != {1}"),
    _infix("mul", "*", "{0} & {1}"),
    Spelling("div", "{0} / {1}", "div_{t}({0}, {1})"),
    Spelling("floordiv", "floordiv_f32({0}, {1})", "floordiv_{t}({0}, {1})"),
    Spelling("mod", "mod_f32({0}, {1})", "mod_{t}({0}, {1})"),
    Spelling("pow", "pow_f32({0}, {1})", "pow_{t}({0}, {1})"),
    Spelling("max", "max_f32({0}, {1})", "max({0}, {1})", "{0} | {1}"),
    Spelling("min", "min_f32({0}, {1})", "min({0}, {1})", "{0} & {1}"),
    Spelling("neg", "-{0}", "{t}(0) - {0}"),
    Spelling("abs", "abs({0})", "abs({0})", "{0}"),
    Spelling("sign", "sign_f32({0})", "sign_{t}({0})"),
    Spelling("exp", "exp_f32({0})"),
    Spelling("log", "log_f32({0})"),
    Spelling("sqrt", "sqrt({0})"),
    Spelling("tanh", "tanh_f32({0})"),
    Spelling("erf", "erf_f32({0})"),
    Spelling("sigmoid", "sigmoid_f32({0})"),
    Spelling("sin", "sin_f32({0})"),
    Spelling("cos", "cos_f32({0})"),
    Spelling("asin", "asin_f32({0})"),
    Spelling("acos", "acos_f32({0})"),
    Spelling("atan", "atan_f32({0})"),
    Spelling("sinh", "sinh_f32({0})"),
    Spelling("cosh", "cosh_f32({0})"),
    Spelling("asinh", "asinh_f32({0})"),
    Spelling("acosh", "acosh_f32({0})"),
    Spelling("atanh", "atanh_f32({0})"),
    _function("floor"),
    _function("ceil"),
    _function("round"),
    _infix("eq", "=="),
    Spelling("ne", "!({0} == {1})"),  # also of NaN, for which some implementations test an order
    _infix("lt", "<", "!{0} & {1}"),
    _infix("le", "<=", "!{0} | {1}"),
    _infix("gt", ">", "{0} & !{1}"),
    _infix("ge", ">=", "{0} | !{1}"),
    Spelling("isnan", "is_nan({0})"),
    _infix("and", "&"),
    _infix("or", "|"),
    _infix("xor", "!="),
    Spelling("not", "!{0}"),
    Spelling("where", "select({2}, {1}, {0})"),
    _infix("bitand", "&"),
    _infix("bitor", "|"),
    _infix("bitxor", "^"),
    Spelling("bitnot", "~{0}"),
    Spelling("shl", "", "shl_{t}({0}, {1})"),
    Spelling("shr", "", "shr_{t}({0}, {1})"),
)
SPELLINGS = {r.name: r for r in RECORDS}


def spell(op: str, dtype: DType, args: Sequence[str]) -> str:
    """Return the text of a scalar function of named values; `dtype` is that of the first value.

    Integers of fewer than 32 bits are wrapped again.

    Raises:
        BadOption: The function has no text in WGSL.
    """
    record, type_ = SPELLINGS.get(op), value_type(dtype)
    text = ""
    if record is not None:
        by_type = {"f32": "", "bool": record.bools}
        text = by_type.get(type_, record.integers) or record.floats
    if not text or (type_ == "bool" and "{t}" in text):
        raise BadOption(f"the function {op} of {dtype} is not printed in WGSL", where=op)
    printed = text.format(*args, t=type_)
    return printed if returns_bool(op) else wrapped(printed, computed(dtype))


def wrapped(text: str, dtype: DType) -> str:
    """Return the low bits of an integer with their sign; other values unchanged."""
    bits = narrow_bits(dtype)
    if not bits:
        return text
    return f"extractBits({text}, 0u, {bits}u)"  # an i32 is extended by its sign


def rounded(text: str, dtype: DType) -> str:
    """Return a computed value rounded to the nearest element of its dtype."""
    return f"round_{dtype}({text})" if dtype in ROUNDED else text


def constant(value: object, dtype: DType) -> str:
    """Return a typed number; a 64-bit integer past 32 bits is the nearest one of 32 bits."""
    type_ = value_type(dtype)
    if type_ == "bool":
        return "true" if value else "false"
    if type_ != "f32":
        low, high = integer_limits(dtype)
        number = (int(value) - low) % (high - low + 1) + low  # type: ignore[call-overload]
        if type_ == "u32":
            return f"{min(number, UINT_MAX)}u"
        number = min(max(number, INT_MIN), INT_MAX)
        return f"{number}i" if number > INT_MIN else f"i32({INT_MIN})"
    number = float(numpy_dtype(dtype if dtype in ROUNDED else "float32").type(value))
    if number != number:
        return "nan()"
    if abs(number) == float("inf"):
        return "inf()" if number > 0 else "-inf()"
    text = f"{number:.9g}"  # nine digits name a float32 exactly; those of the largest lie past it
    return f"{number!r}f" if abs(float(text)) > LARGEST_FLOAT32 else f"{text}f"


def cast(x: str, source: DType, target: DType) -> str:
    """Return a conversion between dtypes of a named value."""
    before, after = value_type(source), value_type(target)
    if source == target:
        return x
    if after == "bool":
        return {"bool": x, "f32": f"!({x} == 0.0f)"}.get(before, f"{x} != {before}(0)")
    if after == "f32":
        return rounded(x if before == "f32" else _as_float(x, before), target)
    if before == "f32":
        integer = f"u32_of_f32({x})" if target in ("uint32", "uint64") else f"i32_of_f32({x})"
        x = integer if target in ("uint32", "uint64") or after == "i32" else f"u32({integer})"
    elif before == "bool":
        x = f"select({after}(0), {after}(1), {x})"
    elif before != after:
        x = f"bitcast<{after}>({x})"
    return wrapped(x, target)


def _as_float(x: str, type_: str) -> str:
    return f"select(0.0f, 1.0f, {x})" if type_ == "bool" else f"f32({x})"


def same_bits(x: str, source: DType, target: DType) -> str:
    """Return the bits of one dtype reinterpreted as another one: of 32 bits, or of small integers.

    Raises:
        BadOption: There is no such reinterpretation.
    """
    if narrow_bits(source) and narrow_bits(source) == narrow_bits(target):
        return cast(x, source, target)
    for dtype in (source, target):
        if dtype not in ("float32", "int32", "uint32"):
            raise BadOption(f"bits of {dtype} are not printed in WGSL", where=dtype)
    return x if source == target else f"bitcast<{value_type(target)}>({x})"


def compared_with_infinity(op: str, x: str, infinity: float) -> str:
    """Return a test of equality with an infinity by bits."""
    sign = "==" if op == "eq" else "!="
    bits = INFINITY_BITS if infinity > 0 else "0xff800000u"
    return f"bitcast<u32>({x}) {sign} {bits}"


# Functions that shaders declare, each where it is used.

DECLARED = re.compile(r"^(?:fn|var<private>) (\w+)", re.MULTILINE)
NAMES = re.compile(r"\b[a-zA-Z_]\w*")


@cache
def _library() -> dict[str, str]:
    """Return every declaration of `functions.wgsl` by its name, in order."""
    text = (files("explorer.codegen.wgsl") / "functions.wgsl").read_text(encoding="utf-8")
    paragraphs = [p.strip() for p in text.split("\n\n")]
    return {m[1]: p for p in paragraphs if (m := DECLARED.match(p))}


def declarations(text: str, native: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the declarations of all functions that a text uses, and of those that they use.

    `native` has declarations to take in place of those of the same name.
    """
    library = {**_library(), **native}
    needed: set[str] = set()
    texts = [text]
    while texts:
        new = (set(NAMES.findall(texts.pop())) & library.keys()) - needed
        needed |= new
        texts += [library[name] for name in new]
    return "\n".join(library[name] for name in library if name in needed)
