"""Scalar expressions of a thread block as Python text; common subexpressions are printed once.

Float types that Numba CUDA lacks are stored as integers: they are decoded and encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.codegen.cpu.emitter import affine_text
from explorer.errors import BadOption
from explorer.ir.affine import Affine
from explorer.ir.dtypes import (
    ITEM_BYTES,
    NARROW_FLOATS,
    SMALL_INTEGERS,
    DType,
    computed,
    integer_limits,
    is_float,
    is_integer,
    is_stored_otherwise,
    numpy_dtype,
)
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import returns_bool
from explorer.ir.tile_program import REGISTER, Do, Fetch, TileExpr, dtype_of_tile

PRODUCTS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 1.0: "{0}"}


def register(f: Fetch) -> str:
    """Return the variable of an element in registers."""
    if f.offset.terms or f.dynamic:
        raise BadOption(f"{f.buffer.name} is in registers, which have no addresses")
    return f"{f.buffer.name}_{f.offset.const}"


@dataclass(slots=True)
class Scalars:
    """A printer of expressions as assignments to `_e0_0`, `_e0_1`, ...

    Equal parts are computed once. `begins` has the first element of arrays that are parts of
    another one.
    """

    tag: int
    begins: Mapping[str, int]
    names: dict[TileExpr, str] = field(default_factory=dict)
    count: int = 0
    lines: list[str] = field(default_factory=list)

    def name(self, e: TileExpr) -> str:
        """Return the text that stands for an expression after its lines."""
        match e:
            case Const(value, dtype):
                return constant(value, dtype)
            case Fetch(buffer) if buffer.level == REGISTER:
                return register(e)
        if e not in self.names:
            right = self.right(e)
            if right.startswith(f"_e{self.tag}_") and right.isidentifier():
                self.names[e] = right  # for example a bfloat16, decoded to float32
                return right
            self.names[e] = f"_e{self.tag}_{self.count}"
            self.count += 1
            self.lines.append(f"{self.names[e]} = {right}")
        return self.names[e]

    def fresh(self, count: int) -> list[str]:
        """Return `count` unused names."""
        self.count += count
        return [f"_e{self.tag}_{n}" for n in range(self.count - count, self.count)]

    def right(self, e: TileExpr) -> str:
        """Return the right side of the assignment for an expression."""
        match e:
            case Fetch():
                return decoded(self.element(e), e.buffer.dtype)
            case IndexValue(index):
                return affine_text(index)
            case Do(op, args):
                return self.function(op, args)
            case Const(value, dtype):
                return constant(value, dtype)

    def element(self, f: Fetch) -> str:
        """Return the array element that stores a value in its encoded form."""
        return f"{f.buffer.name}[{self.offset(f)}]"

    def offset(self, f: Fetch) -> str:
        """Return the offset of an element in its buffer.

        It is unsigned, so that Numba does not check for indices that count from the end.
        """
        begin = f.offset + self.begins.get(f.buffer.name, 0)
        text = _in_groups(begin) if f.buffer.kind == "scratch" else affine_text(begin)
        for index, stride, extent in f.dynamic:
            at = f"min(max({self.name(index)}, 0), {int(extent) - 1})"
            text += f" + {at} * {int(stride)}"
        return text if text.isdigit() else f"uint64({text})"

    def function(self, op: str, args: tuple[TileExpr, ...]) -> str:
        """Return a scalar function's text, by the dtype of its first argument."""
        source = dtype_of_tile(args[0])
        if op.startswith("cast_"):
            return cast(self.name(args[0]), source, op.removeprefix("cast_"))
        if op.startswith("bits_"):
            return same_bits(self.name(args[0]), source, op.removeprefix("bits_"))
        if op == "pow" and isinstance(args[1], Const) and args[1].value in PRODUCTS:
            product = PRODUCTS[float(args[1].value)].format(self.name(args[0]))
            return narrowed(product, source, op)
        dtype = dtype_of_tile(args[1]) if op == "where" else source
        return applied(op, dtype, [self.name(a) for a in args])


def _in_groups(offset: Affine) -> str:
    """Return an index in shared memory whose variable part is marked as a multiple of a group.

    The mark clears bits that are 0 anyway. From it LLVM sees where groups begin, and loads
    neighbours together.
    """
    steps = [f for _, f in offset.terms if isinstance(f, int)]
    group = next((n for n in (4, 2) if all(f % n == 0 for f in steps)), 1)
    if group == 1 or not steps or len(steps) < len(offset.terms):
        return affine_text(offset)
    begins = affine_text(Affine(offset.terms, 0))
    constant_part = f" + {offset.const}" if offset.const != 0 else ""
    return f"(({begins}) & -{group}){constant_part}"


def applied(op: str, dtype: DType, names: list[str]) -> str:
    """Return the text of a scalar function of named values of a dtype."""
    text = spell(op, dtype, names)
    if not text:
        raise BadOption(f"the function {op} is not printed for CUDA", where=op)
    return narrowed(text, dtype, op)


def narrowed(text: str, dtype: DType, op: str) -> str:
    """Return the text with small integers narrowed again.

    Numba widens them, and adds booleans as numbers.
    """
    if returns_bool(op):
        return text
    type_ = computed(dtype)
    if type_ == "bool" and op != "where":
        return f"({text}) != 0"
    return f"{type_}({text})" if is_integer(type_) and type_ != "int64" else text


def constant(value: object, dtype: DType) -> str:
    """Return a typed number."""
    type_ = computed(dtype)
    if type_ == "bool":
        return str(bool(value))
    if is_float(type_):
        number = float(value)  # type: ignore[arg-type]
        if dtype in NARROW_FLOATS:
            number = float(numpy_dtype(dtype).type(number))
        if number != number or number in (float("inf"), float("-inf")):
            sign = "-" if number < 0 else ""
            return f"{type_}({sign}math.{'nan' if number != number else 'inf'})"
        return f"{type_}({number!r})"
    low, high = integer_limits(type_)
    return f"{type_}({(int(value) - low) % (high - low + 1) + low})"  # type: ignore[call-overload]


BITS = {
    "float32": ("libdevice.float_as_int", "int32", "libdevice.int_as_float"),
    "float64": ("libdevice.double_as_longlong", "int64", "libdevice.longlong_as_double"),
}  # as an integer and back; wider integers wrap to the same bits


def same_bits(x: str, source: DType, target: DType) -> str:
    """Return the bytes of one dtype reinterpreted as another one of the same width."""
    for dtype in (source, target):
        if dtype not in BITS and (dtype == "bool" or not is_integer(dtype)):
            raise BadOption(f"bits of {dtype} are not printed for CUDA", where=dtype)
    as_integer = f"{BITS[source][0]}({x})" if source in BITS else x
    if target in BITS:
        _, bits, back = BITS[target]
        return x if source == target else f"{back}({bits}({as_integer}))"
    return f"{target}({as_integer})"


def cast(x: str, source: DType, target: DType) -> str:
    """Return a conversion between dtypes."""
    before, after = computed(source), computed(target)
    if source == target:
        return x
    if why := unprinted(target):
        raise BadOption(f"{why}, the target of a conversion", where=target)
    if after == "bool":
        return f"{x} != 0"
    if is_float(before) and is_integer(after) and after not in ("int64", "uint64"):
        x = f"{'int64' if after == 'uint32' else 'int32'}({x})"  # overflow wraps
    if target == "float16":
        return f"{after}({target}({x}))"
    value = x if before == after else f"{after}({x})"
    return rounded(value, target) if is_stored_otherwise(target) else value


def unprinted(dtype: DType) -> str:
    """Return why elements of a dtype are not printed; else an empty string."""
    if dtype in NARROW_FLOATS - {"float16", "bfloat16"}:
        return f"Numba's CUDA has no elements of {dtype}"
    return ""


def stored_dtype(dtype: DType) -> DType:
    """Return the dtype of arrays that store a dtype: a type of Numba of the same width."""
    if dtype == "bfloat16":
        return "uint16"
    return computed(dtype) if dtype in SMALL_INTEGERS else dtype


def decoded(x: str, dtype: DType) -> str:
    """Return the text of the value of an encoded element."""
    if dtype == "bfloat16":
        return f"of_bfloat16({x})"
    if dtype in SMALL_INTEGERS:
        return _wrapped(x, dtype)
    return f"{computed(dtype)}({x})" if is_stored_otherwise(dtype) else x


def encoded(x: str, dtype: DType) -> str:
    """Return the text of a value's encoded form: the nearest bfloat16, to even in a tie."""
    if dtype == "bfloat16":
        return f"to_bfloat16({x})"
    return _wrapped(x, dtype) if dtype in SMALL_INTEGERS else x


def rounded(x: str, dtype: DType) -> str:
    """Return the text of a computed value rounded to the nearest storable one."""
    return decoded(encoded(x, dtype), dtype) if dtype == "bfloat16" else encoded(x, dtype)


def _wrapped(x: str, dtype: DType) -> str:
    """Return the low bits as an integer, with their sign."""
    bits = SMALL_INTEGERS[dtype]
    low = f"({x} & {(1 << bits) - 1})"
    sign = 1 << (bits - 1)
    return f"uint8({low})" if dtype.startswith("uint") else f"int8(({low} ^ {sign}) - {sign})"


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
