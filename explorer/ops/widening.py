"""Operators on narrow floats: computed in float32, rounded once when a result is stored.

    y: float16 = Exp(x)      ->  y[i] = cast_float16(exp(cast_float32(x[i])))
    y: float16 = Softmax(x)  ->  x.wide = cast x; y.wide: float32 = Softmax(x.wide); y = cast y.wide

A layout operator moves elements as they are stored. If its kernels compute with them, it is
computed in float32 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

from explorer.errors import UnsupportedOperator, VerifyError
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dtypes import NARROW_FLOATS, DType, dtype_of, numpy_dtype
from explorer.ir.kernel import Apply, Axis, Expr, Kernel, Read, reads, rewrite
from explorer.ir.kernels.contraction import product_of
from explorer.ir.kernels.forms import FORMS, Form
from explorer.ir.program import Binding, Constant
from explorer.ir.types import Tensor
from explorer.ops.lowering import Lowering, entry
from explorer.ops.record import Array, OperatorRecord
from explorer.ops.user_operators import deduced_types, user_operators
from explorer.ops.verify_kernel import verify_kernel

COMPUTING = ("elementwise", "matmul", "conv", "reduction")
LAYOUTS_THAT_COMPUTE = frozenset(  # in some form
    {
        *("Resize", "Resample", "GridSample", "RoiAlign", "Col2Im"),
        *("TopK", "ScatterElements", "ScatterND", "Ramp"),
    }
)
LIKE_THE_FIRST = frozenset({"Ramp", "Resample"})  # own operators, without a dtype rule in ONNX
OWN = frozenset(
    {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "MatMulFloat8"}
)  # they define their own rounding, or convert what they read


def lower(record: OperatorRecord, low: Lowering) -> None:
    """Lower the operator to kernels; raise UnsupportedOperator if this form has none."""
    values = (*low.site.present_args, *low.results)
    if record.name in OWN or not any(map(_is_narrow, values)):
        record.lower(low)
        return
    if record.family not in COMPUTING:
        plain = low.lowering_of(low.site, low.results, low.outer_constants)
        with suppress(UnsupportedOperator):  # of these dtypes
            record.lower(plain)
            if not any(_computes_narrow(b) for b in plain.bindings):
                low.absorb(plain)
                return
    wide = _Wide(low)
    record.lower(wide.inner)
    if len(wide.inner.bindings) == 1 and record.family == "elementwise":
        wide.cast_inside()
    else:
        if (
            record.family == "matmul"
        ):  # convolutions compute longer on a weight than it takes to load
            wide.narrow_weights()
        wide.cast_around()


def _computes_narrow(binding: Binding) -> bool:
    """Return True if a kernel applies a function to unconverted narrow floats, or reduces them."""
    if not isinstance(binding.expr, KernelCall):
        return False
    kernel = binding.expr.kernel
    if any(c.combiner and kernel.dtype(c.out) in NARROW_FLOATS for c in kernel.computes):
        return True
    try:
        verify_kernel(kernel)
    except VerifyError:
        return True
    return False


def _is_narrow(value: Var) -> bool:
    return isinstance(value.type, Tensor) and value.type.dtype in NARROW_FLOATS


class _Wide:
    """One operator being lowered in float32: `inner` is the lowering that its record sees."""

    def __init__(self, low: Lowering) -> None:
        """Replace narrow arguments and results by wide ones."""
        self.low = low
        self.constants: dict[str, Constant] = {}
        self.args = {a.name: self._argument(a) for a in low.site.present_args if _is_narrow(a)}
        self.results = {
            r.name: _named(r, f"{r.name}.wide") if _is_narrow(r) else r for r in low.results
        }
        back = {wide.name: name for name, wide in self.results.items()}
        attrs = dict(low.site.attrs)
        if attrs.get("dtype") in NARROW_FLOATS:
            attrs["dtype"] = "float32"
        args = tuple(a and self.args.get(a.name, a) for a in low.site.args)
        self.inner = low.lowering_of(
            replace(low.site, args=args, attrs=attrs),
            tuple(self.results.values()),
            {**low.outer_constants, **self.constants},
            lambda name: low.is_read(back.get(name, name)),
        )

    def _argument(self, arg: Var) -> Var:
        """Return the argument in float32; a constant becomes another constant."""
        constant = self.low.constant_of(arg)
        wide = _named(arg, f"{self.low.result.name}.{arg.name}.wide")
        if constant is not None:
            self.constants[wide.name] = constant.derived("wide", wide.tensor, _as_float32)
        return wide

    def _bindings(self) -> Iterator[Binding]:
        yield from self.inner.bindings
        for function in self.inner.functions:
            yield from function.body

    def keep_constants(self) -> None:
        """Add the constants that the record read or made to the program."""
        read = {v.name for b in self._bindings() for v in b.reads}
        constants = {**self.constants, **self.inner.constants}
        self.low.constants.update((n, c) for n, c in constants.items() if n in read)

    def cast_around(self) -> None:
        """Cast before and after; an argument that occurs twice is cast once."""
        self.keep_constants()
        for arg in dict.fromkeys(self.low.site.present_args):
            wide = self.args.get(arg.name)
            if wide is not None and wide.name not in self.constants:
                _cast(self.low, arg, wide)
        self.low.bindings += self.inner.bindings
        self.low.functions += self.inner.functions
        bound = {v.name for b in self.inner.bindings for v in b.vars}
        for result in self.low.results:
            wide = self.results[result.name]
            if wide != result and wide.name in bound:
                _cast(self.low, wide, result)

    def narrow_weights(self) -> None:
        """Let contractions read constant weights in their own dtype: half as many bytes."""
        narrow_by_wide = {
            wide.name: a
            for a in self.low.site.present_args
            for wide in [self.args.get(a.name)]
            if wide is not None and wide.name in self.constants
        }
        inner = self.inner
        inner.bindings = [_narrowed(b, narrow_by_wide) for b in inner.bindings]
        inner.functions = [
            replace(f, body=tuple(_narrowed(b, narrow_by_wide) for b in f.body))
            for f in inner.functions
        ]

    def cast_inside(self) -> None:
        """Put a cast at each load of the kernel, and one at its end."""
        self.keep_constants()
        (binding,) = self.inner.bindings
        call = binding.expr
        if not isinstance(call, KernelCall) or len(call.kernel.computes) != 1:
            self.cast_around()
            return
        narrow = {
            w.name: a for a in self.low.site.present_args for w in [self.args.get(a.name)] if w
        }
        args = tuple(a if a.name in self.constants else narrow.get(a.name, a) for a in call.args)
        kernel = _kernel(call.kernel, args, self.low.result)
        self.low.bind(self.low.result, KernelCall(kernel, args))


def _narrowed(binding: Binding, narrow_by_wide: Mapping[str, Var]) -> Binding:
    if not isinstance(binding.expr, KernelCall):
        return binding
    return replace(binding, expr=_with_narrow_weights(binding.expr, narrow_by_wide))


def _with_narrow_weights(call: KernelCall, narrow_by_wide: Mapping[str, Var]) -> KernelCall:
    """Rewrite `sum x * w` to `sum x * cast_float32(w)`, `w` in its own dtype.

    This is done if the micro-kernels convert such weights as they load them.
    """
    args = dict(zip(call.kernel.inputs, call.args, strict=True))
    pairs = [p for c in call.kernel.computes if c.reduce and (p := product_of(c.expr))]
    factors = [r.tensor for pair in pairs for r in pair]
    loaded = [r.tensor for c in call.kernel.computes for r in reads(c.expr)]
    chosen = {
        t: narrow_by_wide[args[t].name]
        for t in factors
        if t in args and args[t].name in narrow_by_wide and loaded.count(t) == factors.count(t)
    }
    dtypes = {t: v.type.element for t, v in chosen.items() if isinstance(v.type, Tensor)}
    if any(Form("float32", t, "float32") not in FORMS for t in dtypes.values()):
        return call

    def load(read: Read) -> Expr:
        return Apply("cast_float32", (read,)) if read.tensor in dtypes else read

    kernel = replace(
        call.kernel,
        tensors=tuple(replace(t, dtype=dtypes.get(t.name, t.dtype)) for t in call.kernel.tensors),
        computes=tuple(replace(c, expr=rewrite(c.expr, load)) for c in call.kernel.computes),
    )
    return replace(call, kernel=kernel, args=tuple(chosen.get(n, v) for n, v in args.items()))


def _as_float32(array: Array) -> Array:
    return array.astype(np.float32)


def _named(value: Var, name: str) -> Var:
    return Var(name, replace(value.tensor, dtype="float32"))


def _cast(low: Lowering, source: Var, target: Var) -> None:
    nest, op = low.nest("cast"), f"cast_{target.tensor.element}"

    def body(axes: tuple[Axis, ...]) -> Expr:
        return Apply(op, (nest.load(source, "x", [entry(a, a.extent) for a in axes]),))

    nest.map("y", target, body)


def _kernel(kernel: Kernel, args: tuple[Var, ...], result: Var) -> Kernel:
    """Return a kernel of one compute with the dtypes of these arguments and this result."""
    dtypes = {n: a.type.element for n, a in zip(kernel.inputs, args) if isinstance(a.type, Tensor)}
    dtypes[kernel.output] = result.tensor.element

    def load(read: Read) -> Expr:
        changed = dtypes[read.tensor] != kernel.dtype(read.tensor)
        return Apply(f"cast_{kernel.dtype(read.tensor)}", (read,)) if changed else read

    (compute,) = kernel.computes
    expr = rewrite(compute.expr, load)
    if kernel.dtype(kernel.output) != dtypes[kernel.output]:
        expr = Apply(f"cast_{dtypes[kernel.output]}", (expr,))
    tensors = tuple(replace(t, dtype=dtypes.get(t.name, t.dtype)) for t in kernel.tensors)
    return replace(kernel, tensors=tensors, computes=(replace(compute, expr=expr),))


def reference(record: OperatorRecord, attrs: Mapping[str, Any], args: Sequence[Any]) -> Any:
    """Evaluate the record's NumPy reference; narrow floats in float32, rounded at the end."""
    dtypes = tuple(None if a is None else dtype_of(a) for a in args)
    computes = record.family in COMPUTING or record.name in LAYOUTS_THAT_COMPUTE
    if record.name in OWN or not computes or not NARROW_FLOATS.intersection(dtypes):
        return record.reference(attrs, args)
    wide = [a.astype(np.float32) if t in NARROW_FLOATS else a for a, t in zip(args, dtypes)]
    wide_results = record.reference(attrs, wide)
    results = wide_results if isinstance(wide_results, tuple) else (wide_results,)
    kinds = _result_kinds(record, attrs, args, dtypes, len(results))
    return tuple(
        np.asarray(v).astype(numpy_dtype(t)) if t in NARROW_FLOATS else v
        for v, t in zip(results, kinds, strict=True)
    )


def _result_kinds(
    record: OperatorRecord,
    attrs: Mapping[str, Any],
    args: Sequence[Any],
    dtypes: tuple[DType | None, ...],
    results: int,
) -> tuple[DType | None, ...]:
    """Return the dtype of each result: ONNX's schema ties it, or the shape rule of a user's."""
    if record.name in LIKE_THE_FIRST:
        return dtypes[:1]
    if record.name in user_operators():
        types = deduced_types(record, attrs, args)
        return dtypes[:1] * results if types is None else tuple(t.dtype for t in types)
    return result_dtypes(record.name, dtypes, results)


@lru_cache(maxsize=4096)
def result_dtypes(
    op: str, dtypes: tuple[DType | None, ...], results: int
) -> tuple[DType | None, ...]:
    """Return the dtype of each result that ONNX's schema ties to an argument, else None."""
    if not onnx.defs.has(op, ""):
        return (None,) * results
    schema = onnx.defs.get_schema(op, "")
    bound = {f.type_str: t for f, t in zip(schema.inputs, dtypes) if t is not None}
    last = len(schema.outputs) - 1
    return tuple(bound.get(schema.outputs[min(i, last)].type_str) for i in range(results))
