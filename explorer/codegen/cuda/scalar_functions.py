"""The CUDA spelling of each scalar function of `ir.scalar_functions`, one record each.

Spellings are plain Python on scalars, which Numba compiles for a GPU; there `math`'s functions are
libdevice's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.ir.dtypes import ITEM_BYTES, DType, computed, is_float


@dataclass(frozen=True, slots=True)
class Spelling:
    """The text of a scalar function.

    `{0}`, `{1}` and `{2}` stand for the arguments, `{type}` for the type that they are computed in,
    and `{bits}` for its width. `integer_text` is for other types than floats, if it differs.
    """

    name: str
    text: str
    integer_text: str = ""


def _math(name: str, function: str = "") -> Spelling:
    return Spelling(name, f"math.{function or name}({{0}})")


def _infix(name: str, sign: str) -> Spelling:
    return Spelling(name, f"{{0}} {sign} {{1}}")


_DOWN = "{0} // {1} if {1} != 0 else {type}(0)"
_UNEVEN = "{0} % {1} != 0 and ({0} < 0) != ({1} < 0)"
_SMALL = "math.exp(-math.fabs({0}))"
_OF_ONE = "({type}(1) if {0} == 1 or ({0} == -1 and {1} % 2 == 0) else {0} if {0} == -1"

RECORDS: tuple[Spelling, ...] = (
    _infix("add", "+"),
    _infix("sub", "-"),
    _infix("mul", "*"),
    Spelling(
        "div",
        "{0} / {1}",
        f"({_DOWN}) + ({{type}}(1) if {{1}} != 0 and {_UNEVEN} else {{type}}(0))",
    ),
    Spelling("floordiv", "{0} // {1}", _DOWN),
    Spelling("mod", "{0} % {1}", "{0} % {1} if {1} != 0 else {type}(0)"),
    Spelling("pow", "{0} ** {1}", f"{{0}} ** {{1}} if {{1}} >= 0 else {_OF_ONE} else {{type}}(0))"),
    Spelling("max", "{0} if {0} > {1} or {0} != {0} else {1}"),
    Spelling("min", "{0} if {0} < {1} or {0} != {0} else {1}"),
    Spelling("neg", "-{0}"),
    Spelling("abs", "math.fabs({0})", "{type}(-{0}) if {0} < 0 else {0}"),
    Spelling("sign", "{type}(1) if {0} > 0 else ({type}(-1) if {0} < 0 else {0})"),
    _math("exp"),
    _math("log"),
    _math("sqrt"),
    _math("tanh"),
    _math("erf"),
    Spelling("sigmoid", f"({{type}}(1) if {{0}} >= 0 else {_SMALL}) / ({{type}}(1) + {_SMALL})"),
    _math("sin"),
    _math("cos"),
    _math("asin"),
    _math("acos"),
    _math("atan"),
    _math("sinh"),
    _math("cosh"),
    _math("asinh"),
    _math("acosh"),
    _math("atanh"),
    _math("floor"),
    _math("ceil"),
    Spelling("round", "libdevice.{rint}({0})"),
    _infix("eq", "=="),
    _infix("ne", "!="),
    _infix("lt", "<"),
    _infix("le", "<="),
    _infix("gt", ">"),
    _infix("ge", ">="),
    Spelling("isnan", "{0} != {0}"),
    _infix("and", "&"),
    _infix("or", "|"),
    _infix("xor", "!="),
    Spelling("not", "not {0}"),
    Spelling("where", "{1} if {0} else {2}"),
    _infix("bitand", "&"),
    _infix("bitor", "|"),
    _infix("bitxor", "^"),
    Spelling("bitnot", "~{0}"),
    Spelling("shl", "{0} << {1} if {1} >= 0 and {1} < {bits} else {type}(0)"),
    Spelling(
        "shr",
        "{0} >> {1} if {1} >= 0 and {1} < {bits} else ({type}(-1) if {0} < 0 else {type}(0))",
    ),
)
SPELLINGS: dict[str, Spelling] = {r.name: r for r in RECORDS}


def spell(op: str, dtype: DType, args: Sequence[str]) -> str:
    """Return the text of a scalar function of named values; empty if it has no spelling.

    `dtype` is that of the first value.
    """
    record = SPELLINGS.get(op)
    if record is None:
        return ""
    type_ = computed(dtype)
    text = record.text if is_float(type_) or not record.integer_text else record.integer_text
    rint = "rintf" if type_ == "float32" else "rint"
    return text.format(*args, type=type_, bits=8 * ITEM_BYTES[type_], rint=rint)
