"""Scalar expressions of a thread block as Python text, each shared part once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.codegen.cpu.expressions import affine_text
from explorer.codegen.cuda.narrow import decoded, rounded, unprinted
from explorer.codegen.cuda.scalar_functions import spelled
from explorer.errors import BadOption
from explorer.ir.affine import Affine
from explorer.ir.dtypes import (
    NARROW_FLOATS,
    DType,
    computed,
    integer_limits,
    is_float,
    is_integer,
    is_stored_otherwise,
    numpy_dtype,
)
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import gives_truth
from explorer.ir.tile_programs.elements import REGISTER, Do, Fetch, TileExpr, dtype_of_tile

PRODUCTS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 1.0: "{0}"}


def register(f: Fetch) -> str:
    """The variable that an element in registers is."""
    if f.offset.terms or f.dynamic:
        raise BadOption(f"{f.buffer.name} is in registers, which have no addresses")
    return f"{f.buffer.name}_{f.offset.const}"


@dataclass(slots=True)
class Scalars:
    """Prints expressions as assignments to `_e0_0`, `_e0_1`, ...; equal parts are computed once.
    `begins`: of arrays that are parts of another one, the first element there.
    """

    tag: int
    begins: Mapping[str, int]
    names: dict[TileExpr, str] = field(default_factory=dict)
    count: int = 0
    lines: list[str] = field(default_factory=list)

    def name(self, e: TileExpr) -> str:
        """The text that stands for an expression after its lines."""
        match e:
            case Const(value, dtype):
                return constant(value, dtype)
            case Fetch(buffer) if buffer.level == REGISTER:
                return register(e)
        if e not in self.names:
            right = self.right(e)
            if right.startswith(f"_e{self.tag}_") and right.isidentifier():
                self.names[e] = right  # such as what a bfloat16 is read as, converted to float32
                return right
            self.names[e] = f"_e{self.tag}_{self.count}"
            self.count += 1
            self.lines.append(f"{self.names[e]} = {right}")
        return self.names[e]

    def fresh(self, count: int) -> list[str]:
        """So many names that nothing has."""
        self.count += count
        return [f"_e{self.tag}_{n}" for n in range(self.count - count, self.count)]

    def right(self, e: TileExpr) -> str:
        """The right side of the assignment for an expression."""
        match e:
            case Fetch():
                return decoded(self.held(e), e.buffer.dtype)
            case IndexValue(index):
                return affine_text(index)
            case Do(op, args):
                return self.function(op, args)
            case Const(value, dtype):
                return constant(value, dtype)

    def held(self, f: Fetch) -> str:
        """What memory holds of an element."""
        return f"{f.buffer.name}[{self.offset(f)}]"

    def offset(self, f: Fetch) -> str:
        """Where an element lies in its buffer: a number without a sign, which Numba does not look
        at to count from the end.
        """
        begin = f.offset + self.begins.get(f.buffer.name, 0)
        text = _in_groups(begin) if f.buffer.kind == "scratch" else affine_text(begin)
        for index, stride, extent in f.dynamic:
            at = f"min(max({self.name(index)}, 0), {int(extent) - 1})"
            text += f" + {at} * {int(stride)}"
        return text if text.isdigit() else f"uint64({text})"

    def function(self, op: str, args: tuple[TileExpr, ...]) -> str:
        """A scalar function, by the dtype of its first argument."""
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
    """An index in shared memory; where all but a number in it counts groups of elements, it says
    so, by bits that are 0 anyway: LLVM sees where groups begin, and loads neighbours together.
    """
    steps = [f for _, f in offset.terms if isinstance(f, int)]
    group = next((n for n in (4, 2) if all(f % n == 0 for f in steps)), 1)
    if group == 1 or not steps or len(steps) < len(offset.terms):
        return affine_text(offset)
    begins = affine_text(Affine(offset.terms, 0))
    rest = f" + {offset.const}" if offset.const != 0 else ""
    return f"(({begins}) & -{group}){rest}"


def applied(op: str, dtype: DType, names: list[str]) -> str:
    """A scalar function of names of a dtype."""
    text = spelled(op, dtype, names)
    if not text:
        raise BadOption(f"the function {op} is not printed for CUDA", where=op)
    return narrowed(text, dtype, op)


def narrowed(text: str, dtype: DType, op: str) -> str:
    """Numba widens small integers, and adds truths as numbers; they are narrowed again."""
    if gives_truth(op):
        return text
    type_ = computed(dtype)
    if type_ == "bool" and op != "where":
        return f"({text}) != 0"
    return f"{type_}({text})" if is_integer(type_) and type_ != "int64" else text


def constant(value: object, dtype: DType) -> str:
    """A typed number."""
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
    """The bytes of one dtype as another one of the same width."""
    for dtype in (source, target):
        if dtype not in BITS and (dtype == "bool" or not is_integer(dtype)):
            raise BadOption(f"bits of {dtype} are not printed for CUDA", where=dtype)
    whole = f"{BITS[source][0]}({x})" if source in BITS else x
    if target in BITS:
        _, bits, back = BITS[target]
        return x if source == target else f"{back}({bits}({whole}))"
    return f"{target}({whole})"


def cast(x: str, source: DType, target: DType) -> str:
    """A conversion between dtypes."""
    before, after = computed(source), computed(target)
    if source == target:
        return x
    if why := unprinted(target):
        raise BadOption(f"{why}, to which something is converted", where=target)
    if after == "bool":
        return f"{x} != 0"
    if is_float(before) and is_integer(after) and after not in ("int64", "uint64"):
        x = f"{'int64' if after == 'uint32' else 'int32'}({x})"  # what is too large wraps
    if target == "float16":
        return f"{after}({target}({x}))"
    value = x if before == after else f"{after}({x})"
    return rounded(value, target) if is_stored_otherwise(target) else value
