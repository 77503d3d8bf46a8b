"""Products of narrow operands, without conversions before them: 16-bit floats and bytes.

16-bit floats are multiplied by the matrix units of a device, 8-bit operands into int32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, OpCall, Var
from explorer.ir.dtypes import HALF_FLOATS, DType, numpy_dtype
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, reads
from explorer.ir.kernels.contraction import product_of
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match

BYTES = ("int8", "uint8")


@compiler_pass(
    "narrow-products", paper="Micikevicius et al. 2018, Mixed precision training, section 3"
)
@dataclass(frozen=True, slots=True)
class NarrowProducts:
    """A pass for devices whose matrix units multiply 16-bit floats; others leave programs alone."""

    device: Device

    def __call__(self, program: Program) -> Program:
        """Read 16-bit operands of float32 contractions directly.

        After: a float32 contraction reads two 16-bit tensors where both were converted from the
        same type: `a = cast x; b = cast w; y = sum a * b` becomes `y = sum cast(x) * cast(w)`. A
        constant is converted in place if no element changes. The products are unchanged: float32
        holds them exactly.
        """
        if not self.device.has_matrix_units:
            return program
        constants = dict(program.constants)
        narrow: dict[tuple[str, DType], str] = {}
        functions = tuple(_Function(f, constants, narrow).rewrite() for f in program.functions)
        if all(a is b for a, b in zip(functions, program.functions, strict=True)):
            return program
        return replace(program, functions=functions, constants=constants)


class _Function:
    """The rewrite of one function's contractions."""

    def __init__(
        self,
        function: Function,
        constants: dict[str, Constant],
        narrow: dict[tuple[str, DType], str],
    ) -> None:
        """Create the rewrite of a function; new constants are added to `constants`.

        `narrow` names those that functions before have added, by their sources and dtypes.
        """
        self.function, self.constants, self.narrow = function, constants, narrow
        self.taken = {*constants, *(v.name for b in function.body for v in b.vars)}
        self.cast: dict[
            str, tuple[Var, Binding]
        ] = {}  # operands of conversions to float32, and the conversions

    def rewrite(self) -> Function:
        """Return the rewritten function; unread conversions stay for dead code removal."""
        body: list[Binding] = []
        for binding in self.function.body:
            source = _conversion_source(binding)
            if source is not None:
                self.cast[binding.var.name] = source, binding
            new = self._narrow(binding)
            if new is not binding:
                record_match(NarrowProducts, (binding,), (new,))
            body.append(new)
        if all(a is b for a, b in zip(body, self.function.body, strict=True)):
            return self.function
        return replace(self.function, body=tuple(body))

    def _narrow(self, binding: Binding) -> Binding:
        if not isinstance(binding.expr, KernelCall):
            return binding
        for c in binding.expr.kernel.computes:
            binding = self._narrow_product(binding, c) or binding
        return binding

    def _narrow_product(self, binding: Binding, c: Compute) -> Binding | None:
        """Let one compute read the unconverted operands; return None if it cannot."""
        call = binding.kernel_call
        kernel, args = call.kernel, dict(zip(call.kernel.inputs, call.args, strict=True))
        pair = product_of(c.expr)
        if pair is None or c.combiner != "sum" or kernel.dtype(c.out) != "float32":
            return None
        for dtype in HALF_FLOATS:
            operands = {r.tensor: self._narrow_source(kernel, args, r.tensor, dtype) for r in pair}
            if all(operands.values()) and any(kernel.dtype(t) == "float32" for t in operands):
                break
        else:
            return None
        sources = {t: s for t, s in operands.items() if s is not None}
        narrowed = _with_narrow_operands(kernel, c, {t: dtype for t in sources})
        if narrowed is None:
            return None
        origin = frozenset[str]().union(*(o for _, o in sources.values()))
        values = tuple(sources[n][0] if n in sources else v for n, v in args.items())
        computes = tuple(
            replace(x, origin=x.origin | origin) if x.out == c.out else x for x in narrowed.computes
        )
        new = replace(call, kernel=replace(narrowed, computes=computes), args=values)
        return replace(binding, expr=new, origin=binding.origin | origin)

    def _narrow_source(
        self, kernel: Kernel, args: Mapping[str, Var], tensor: str, dtype: DType
    ) -> tuple[Var, frozenset[str]] | None:
        """Return an operand before its conversion from a type, and the conversion's origins."""
        arg = args.get(tensor)
        if arg is None or not isinstance(arg.type, Tensor):
            return None
        if arg.type.dtype == dtype:
            return arg, frozenset()
        source = self.cast.get(arg.name)
        if source is not None and source[0].tensor.element == dtype:
            return source[0], source[1].origin
        constant = self.constants.get(arg.name)
        return None if constant is None else self._narrow_constant(arg, constant.array, dtype)

    def _narrow_constant(
        self, arg: Var, array: np.ndarray, dtype: DType
    ) -> tuple[Var, frozenset[str]] | None:
        with np.errstate(over="ignore"):
            narrow = array.astype(numpy_dtype(dtype))
        if array.dtype != np.float32 or not np.array_equal(
            narrow.astype(np.float32), array, equal_nan=True
        ):
            return None
        if (arg.name, dtype) not in self.narrow:
            name = self.narrow[arg.name, dtype] = fresh(f"{arg.name}.{dtype}", self.taken)
            self.taken.add(name)
            self.constants[name] = Constant(narrow)
        return Var(self.narrow[arg.name, dtype], replace(arg.tensor, dtype=dtype)), frozenset()


def _conversion_source(binding: Binding) -> Var | None:
    """Return the value that a binding converts to float32 element by element, or None."""
    call = binding.expr
    if not isinstance(call, KernelCall) or len(call.kernel.computes) != 1 or len(call.args) != 1:
        return None
    kernel, (c,) = call.kernel, call.kernel.computes
    match c.expr:
        case Apply("cast_float32", (Read(fill=None) as read,)) if not c.reduce:
            unit_axes = {
                a.name: Affine() for a in c.axes if a.extent == 1
            }  # read at 0 or by the axis
            there = tuple(i.substitute(unit_axes) for i in read.index if isinstance(i, Affine))
            same = kernel.shape(c.out) == kernel.shape(read.tensor)
            here = tuple(i.substitute(unit_axes) for i in c.target)
            return call.args[0] if same and there == here else None
    return None


def _with_narrow_operands(kernel: Kernel, c: Compute, dtypes: Mapping[str, DType]) -> Kernel | None:
    """Change the types of one contraction's operands.

    Returns None if another compute reads them, or if the product does more than convert them.
    """

    def plain(expr: Expr) -> Expr:
        return expr.args[0] if isinstance(expr, Apply) and expr.op == "cast_float32" else expr

    match c.expr:
        case Apply("mul", (x, y)) if isinstance(plain(x), Read) and isinstance(plain(y), Read):
            factors = plain(x), plain(y)
        case _:
            return None
    others = (r.tensor for x in kernel.computes if x is not c for r in reads(x.expr))
    if not set(dtypes).isdisjoint(others):
        return None
    converted = tuple(Apply("cast_float32", (f,)) for f in factors)
    new = replace(c, expr=Apply("mul", converted))
    return replace(
        kernel,
        tensors=tuple(replace(t, dtype=dtypes.get(t.name, t.dtype)) for t in kernel.tensors),
        computes=tuple(new if x is c else x for x in kernel.computes),
    )


@compiler_pass(
    "byte-products",
    paper="Jacob et al. 2018, Quantization and training of neural networks for efficient "
    "integer-arithmetic-only inference, section 2.2",
)
def multiply_bytes(program: Program) -> Program:
    """Read 8-bit operands of int32 matrix products directly.

    After: an int32 product of bytes by int8, or by a constant of bytes, reads them unconverted: a
    quarter of the memory traffic. `a = Cast(x, int32); y = MatMul(a, w)` becomes `y =
    MatMulInteger(x, w')`, where `w'` are the elements of `w` in 8 bits. Both are exact, modulo 2 **
    32.
    """
    constants = dict(program.constants)
    functions = tuple(_rewrite_function(f, constants) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions, constants=constants)


def _rewrite_function(function: Function, constants: dict[str, Constant]) -> Function:
    taken = {*constants, *(v.name for b in function.body for v in b.vars)}
    cast: dict[
        str, tuple[Var, Binding]
    ] = {}  # operands of conversions from bytes to int32, and the conversions
    body: list[Binding] = []
    for binding in function.body:
        call = binding.expr
        if isinstance(call, OpCall) and call.op == "Cast" and _dtype(binding.vars[0]) == "int32":
            if call.args[0] is not None and _dtype(call.args[0]) in BYTES:
                cast[binding.var.name] = call.args[0], binding
        elif isinstance(call, OpCall) and call.op == "MatMul":
            new = _rewrite_product(binding, call, cast, constants, taken)
            if new is not binding:
                record_match(multiply_bytes, (binding,), (new,))
            binding = new
        body.append(binding)
    same = all(a is b for a, b in zip(body, function.body, strict=True))
    return function if same else replace(function, body=tuple(body))


def _rewrite_product(
    binding: Binding,
    call: OpCall,
    cast: Mapping[str, tuple[Var, Binding]],
    constants: dict[str, Constant],
    taken: set[str],
) -> Binding:
    left, right = call.args
    if left is None or right is None or left.name not in cast or not _has_rows(left, right):
        return binding
    x, first = cast[left.name]
    origin = binding.origin | first.origin
    if right.name in cast:
        w, second = cast[right.name]
        origin |= second.origin
        if w.name not in constants and _dtype(w) != "int8":  # its sign is only known in a run
            return binding
    elif right.name in constants:
        narrow = _as_bytes(constants[right.name].array)
        if narrow is None:
            return binding
        name = fresh(f"{right.name}.bytes", taken)
        taken.add(name)
        constants[name] = Constant(narrow)
        w = Var(name, replace(right.tensor, dtype=str(narrow.dtype)))
    else:
        return binding
    return replace(binding, expr=OpCall("MatMulInteger", (x, w)), origin=origin)


def _has_rows(left: Var, right: Var) -> bool:
    """Return True if both operands have at least two dims."""
    types = (left.type, right.type)
    return all(isinstance(t, Tensor) and t.is_known and len(t.dims) > 1 for t in types)


def _as_bytes(array: np.ndarray) -> np.ndarray | None:
    """Return an int32 array as int8 or uint8, or None if an element does not fit."""
    if array.dtype != np.int32 or not array.size:
        return None
    for dtype in BYTES:
        narrow = array.astype(dtype)
        if np.array_equal(narrow, array):
            return narrow
    return None


def _dtype(value: Var) -> str:
    return (value.type.dtype or "") if isinstance(value.type, Tensor) else ""
