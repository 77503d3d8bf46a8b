"""The elements of a register tile as LLVM code: loads, products and sums of operands.

Integers of a byte or two are multiplied in groups: a lane takes the four bytes of neighbours along
the depth. Sums of integers are exact modulo 2 ** 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from explorer.codegen.cpu.half_floats import widened
from explorer.ir.kernels.forms import Form

F32, F64 = ir.FloatType(), ir.DoubleType()
I8, I16, I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
CELLS = {
    "float32": F32, "float64": F64, "float16": I16, "bfloat16": I16,
    "int32": I32, "int16": I16, "int8": I8, "uint8": I8,
}  # fmt: skip
PLAIN = Form("float32", "float32", "float32")
PAIRS_OF = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


class Elements:
    """Vectors of `lanes` sums of one form, emitted at a builder."""

    def __init__(self, b: Any, form: Form, lanes: int, dot: str = "plain") -> None:
        """Create the vector types of a form; `dot` is the kind of dot-product instruction."""
        self.b, self.form, self.lanes, self.dot = b, form, lanes, dot
        self.left, self.right, self.total = (CELLS[t] for t in (form.left, form.right, form.total))
        self.vector = ir.VectorType(self.total, lanes)
        self.is_float = self.total in (F32, F64)

    def function(self, name: str, *types: Any) -> Any:
        """Declare an LLVM intrinsic.

        The first type is that of its result, the others are those of its arguments.
        """
        kind, declared = ir.FunctionType(types[0], types[1:]), self.b.module.globals
        return declared[name] if name in declared else ir.Function(self.b.module, kind, name)

    def overloaded(self, name: str, arity: int) -> Any:
        """Declare an LLVM intrinsic on vectors of sums, which llvmlite cannot name."""
        suffix = f"v{self.lanes}f{64 if self.total == F64 else 32}"
        return self.function(f"llvm.{name}.{suffix}", *[self.vector] * (arity + 1))

    def constant(self, value: float) -> Any:
        """Return a vector of one number."""
        number = float(np.float32(value)) if self.total == F32 else value
        return ir.Constant(self.vector, [number if self.is_float else int(number)] * self.lanes)

    def splat(self, x: Any) -> Any:
        """Return a vector of one value."""
        none = ir.Constant(ir.VectorType(x.type, self.lanes), ir.Undefined)
        same = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.b.shuffle_vector(self.b.insert_element(none, x, I32(0)), none, same)

    def load(self, at: Any) -> Any:
        """Load a vector of the sums' type, at any alignment."""
        return self.bits(at, self.vector)

    def bits(self, at: Any, kind: Any) -> Any:
        """Load a value of some type from an address, at any alignment."""
        return self.b.load(self.b.bitcast(at, kind.as_pointer()), align=1)

    def row(self, at: Any) -> tuple[Any, ...]:
        """Load one value of the left operand, or one group of them, into all lanes."""
        if self.form.group == 1:
            return (self.splat(self.b.load(at, align=self._align(self.form.left))),)
        return self._split_group(self.splat(self.bits(at, I32)), self.form.left)

    def column(self, at: Any) -> tuple[Any, ...]:
        """Load a vector of the right operand."""
        if self.form.group > 1:
            return self._split_group(self.bits(at, ir.VectorType(I32, self.lanes)), self.form.right)
        loaded = self.bits(at, ir.VectorType(self.right, self.lanes))
        match self.form.right:
            case "float16":
                return (widened(self.b, loaded),)
            case "int8" if self.is_float:
                wide = ir.VectorType(I32, self.lanes)
                return (self.b.sitofp(self.b.sext(loaded, wide), self.vector),)
            case "bfloat16":
                wide = ir.VectorType(I32, self.lanes)
                shift = ir.Constant(wide, [16] * self.lanes)
                return (self.b.bitcast(self.b.shl(self.b.zext(loaded, wide), shift), self.vector),)
        return (loaded,)

    def _align(self, dtype: str) -> int:
        return {F64: 8, F32: 4, I32: 4}.get(CELLS[dtype], 1)

    def add_product(self, x: tuple[Any, ...], y: tuple[Any, ...], total: Any) -> Any:
        """Return `total` plus the products of a row value and a column vector."""
        b = self.b
        if self.is_float:
            return b.call(self.overloaded("fma", 3), [x[0], y[0], total])
        if self.form.group == 1:
            return b.add(total, b.mul(x[0], y[0]))
        if self.dot == "groups":
            return self._dot_product(x[0], y[0], total)
        for left, right in zip(x, y, strict=True):
            total = b.add(total, self._pair_products(left, right))
        return total

    def _dot_product(self, x: Any, y: Any, total: Any) -> Any:
        """Add a group's products by one instruction, without saturation."""
        short = self.form.group == 2
        cell = ir.VectorType(I16 if short else I8, self.lanes * self.form.group)
        name = f"llvm.x86.avx512.vpdp{'wssd' if short else 'busd'}.{self.lanes * 32}"
        add = self.function(name, self.vector, self.vector, cell, cell)
        return self.b.call(add, [total, self.b.bitcast(x, cell), self.b.bitcast(y, cell)])

    def _pair_products(self, x: Any, y: Any) -> Any:
        """Return x[0] * y[0] + x[1] * y[1] of the two halves of each lane."""
        b, cell = self.b, ir.VectorType(I16, 2 * self.lanes)
        if self.dot == "pairs":
            add = self.function(PAIRS_OF[self.lanes], self.vector, cell, cell)
            return b.call(add, [b.bitcast(x, cell), b.bitcast(y, cell)])
        half = ir.Constant(self.vector, [16] * self.lanes)
        low = [b.ashr(b.shl(v, half), half) for v in (x, y)]
        return b.add(b.mul(*low), b.mul(b.ashr(x, half), b.ashr(y, half)))

    def _split_group(self, word: Any, dtype: str) -> tuple[Any, ...]:
        """Return a group as pairs of int16: itself, or its even and its odd bytes."""
        if self.dot == "groups" or self.form.group == 2:
            return (word,)
        b, cell = self.b, ir.VectorType(I16, 2 * self.lanes)
        x, eight = b.bitcast(word, cell), ir.Constant(cell, [8] * 2 * self.lanes)
        up = b.shl(x, eight)
        parts = (b.lshr(up, eight), b.lshr(x, eight))
        if dtype == "int8":
            parts = (b.ashr(up, eight), b.ashr(x, eight))
        return tuple(b.bitcast(p, self.vector) for p in parts)

    def operation(self, name: str, x: Any, y: Any) -> Any:
        """Return the sum, difference, product or quotient of two vectors."""
        if self.is_float:
            return getattr(self.b, f"f{name}")(x, y, flags=["contract"])
        return getattr(self.b, name)(x, y)
