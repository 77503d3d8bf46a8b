"""The elements of a register tile as LLVM code: loads, products and sums of operands.

Integers of a byte or two are multiplied in groups: a lane takes the four bytes of neighbours along
the depth. Sums of integers are exact modulo 2 ** 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from explorer.codegen.cpu.half_floats import widened
from explorer.ir.dtypes import integer_limits
from explorer.ir.kernels.forms import ELEMENTS_OF_BYTE, Form, group_of

F32, F64 = ir.FloatType(), ir.DoubleType()
I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
CELLS = {
    "float32": F32, "float64": F64, "float16": I16, "bfloat16": I16,
    "int32": I32, "int16": I16, "int8": I8, "uint8": I8, "int4": I8, "uint4": I8,
    "float8_e4m3fn": I8,
}  # fmt: skip
PLAIN = Form("float32", "float32", "float32")
TABLE_LANES = 16  # of the look-up in a register of AVX-512
PAIRS_OF = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
# Products of unsigned and signed bytes, neighbours added in int16 with saturation.
BYTE_PAIRS_OF = {8: "llvm.x86.avx2.pmadd.ub.sw", 16: "llvm.x86.avx512.pmaddubs.w.512"}


class Elements:
    """Vectors of `lanes` sums of one form, emitted at a builder."""

    def __init__(self, b: Any, form: Form, lanes: int, dot: str = "plain") -> None:
        """Create the vector types of a form; `dot` is the kind of dot-product instruction."""
        self.b, self.form, self.lanes, self.dot = b, form, lanes, dot
        self.left, self.right, self.total = (CELLS[t] for t in (form.left, form.right, form.total))
        self.vector = ir.VectorType(self.total, lanes)
        self.is_float = self.total in (F32, F64)
        self.word = group_of(form.left, form.left)  # elements of a word of the left operand
        self.is_by_value = self.is_float or self.word == 1
        small = form.left == "int8" and form.right == "uint4"  # four products fit an int16
        self.has_byte_pairs = small and dot == "pairs" and lanes in BYTE_PAIRS_OF

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
        if self.is_by_value:
            each = (self.b.gep(at, [I64(n)]) for n in range(self.form.group))
            align = self._align(self.form.left)
            return tuple(self.splat(self.b.load(x, align=align)) for x in each)
        words = [self.b.gep(at, [I64(n)]) for n in range(0, self.form.group, self.word)]
        return self._split_words([self.splat(self.bits(w, I32)) for w in words], self.form.left)

    def column(self, at: Any) -> tuple[Any, ...]:
        """Load a vector of the right operand, or of groups of its elements."""
        if not self.is_by_value:
            word = self.bits(at, ir.VectorType(I32, self.lanes))
            words = self._halves(word) if self.form.right in ELEMENTS_OF_BYTE else [word]
            return self._split_words(words, self.form.right)
        loaded = self.bits(at, ir.VectorType(self.right, self.lanes))
        if self.form.right in ELEMENTS_OF_BYTE:
            return self._elements_of_byte(loaded)
        match self.form.right:
            case "float16":
                return (widened(self.b, loaded),)
            case "int8" if self.is_float:
                wide = ir.VectorType(I32, self.lanes)
                return (self.b.sitofp(self.b.sext(loaded, wide), self.vector),)
            case "uint8" if self.is_float:
                wide = ir.VectorType(I32, self.lanes)
                return (self.b.uitofp(self.b.zext(loaded, wide), self.vector),)
            case "float8_e4m3fn":
                return (self._of_e4m3(loaded),)
            case "bfloat16":
                wide = ir.VectorType(I32, self.lanes)
                shift = ir.Constant(wide, [16] * self.lanes)
                return (self.b.bitcast(self.b.shl(self.b.zext(loaded, wide), shift), self.vector),)
        return (loaded,)

    def _of_e4m3(self, loaded: Any) -> Any:
        """Return floats of a byte each: their exponent and mantissa move to float32's places.

        The difference of the biases is a factor, which normalises subnormals. 127 is NaN.
        """
        b, wide = self.b, ir.VectorType(I32, self.lanes)
        sign, size, up, left, nan = (
            ir.Constant(wide, [n] * self.lanes) for n in (128, 127, 20, 24, 0x7FC00000)
        )
        code = b.zext(loaded, wide)
        magnitude = b.and_(code, size)
        small = b.bitcast(b.shl(magnitude, up), self.vector)
        value = b.bitcast(b.fmul(small, self.constant(2.0**120)), wide)
        bits = b.select(b.icmp_unsigned("==", magnitude, size), nan, value)
        return b.bitcast(b.or_(bits, b.shl(b.and_(code, sign), left)), self.vector)

    def _align(self, dtype: str) -> int:
        return {F64: 8, F32: 4, I32: 4}.get(CELLS[dtype], 1)

    def add_product(self, x: tuple[Any, ...], y: tuple[Any, ...], total: Any) -> Any:
        """Return `total` plus the products of a row value and a column vector."""
        b = self.b
        if self.has_byte_pairs:
            return b.add(total, self._byte_products(x, y))
        for left, right in zip(x, y, strict=True):
            if self.is_float:
                total = b.call(self.overloaded("fma", 3), [left, right, total])
            elif self.is_by_value:
                total = b.add(total, b.mul(left, right))
            elif self.dot == "groups":
                total = self._dot_product(left, right, total)
            else:
                total = b.add(total, self._pair_products(left, right))
        return total

    def _dot_product(self, x: Any, y: Any, total: Any) -> Any:
        """Add the products of a word by one instruction, without saturation.

        Of bytes the unsigned one comes first.
        """
        x, y = (y, x) if self.form.left == "int8" else (x, y)
        short = self.word == 2
        cell = ir.VectorType(I16 if short else I8, self.lanes * self.word)
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

    def _byte_products(self, x: tuple[Any, ...], y: tuple[Any, ...]) -> Any:
        """Return the sums of the products of int8 rows and uint4 columns; four are below 2 ** 13.

        Extended to int16 first, a step of the depth took twice as many instructions.
        """
        b = self.b
        cell, wide = (ir.VectorType(t, n * self.lanes) for t, n in ((I8, 4), (I16, 2)))
        multiply = self.function(BYTE_PAIRS_OF[self.lanes], wide, cell, cell)
        first, second = (
            b.call(multiply, [b.bitcast(v, cell), b.bitcast(u, cell)])
            for u, v in zip(x, y, strict=True)
        )
        add = self.function(PAIRS_OF[self.lanes], self.vector, wide, wide)
        return b.call(add, [b.add(first, second), ir.Constant(wide, [1] * 2 * self.lanes)])

    def _elements_of_byte(self, loaded: Any) -> tuple[Any, ...]:
        """Return both elements of each byte as floats."""
        b, wide = self.b, ir.VectorType(I32, self.lanes)
        if self.dot == "groups" and self.lanes == TABLE_LANES:
            return self._looked_up(loaded)
        up, four, low = (ir.Constant(wide, [n] * self.lanes) for n in (28, 4, 15))
        if self.form.right == "uint4":
            x = b.zext(loaded, wide)
            return tuple(b.uitofp(v, self.vector) for v in (b.and_(x, low), b.lshr(x, four)))
        x = b.sext(loaded, wide)
        return tuple(b.sitofp(v, self.vector) for v in (b.ashr(b.shl(x, up), up), b.ashr(x, four)))

    def _looked_up(self, loaded: Any) -> tuple[Any, ...]:
        """Return both elements of each byte, looked up in a register of 16 floats.

        The instruction reads the low four bits of an index. Shifts, masks and conversions took a
        product of one row with 4096 x 4096 weights 0.39 ms, this takes 0.30 (Zen 5).
        """
        b, wide = self.b, ir.VectorType(I32, self.lanes)
        _, high = integer_limits(self.form.right)
        numbers = [float(n if n <= high else n - TABLE_LANES) for n in range(TABLE_LANES)]
        table = ir.Constant(self.vector, numbers)
        look = self.function("llvm.x86.avx512.permvar.sf.512", self.vector, self.vector, wide)
        x = b.zext(loaded, wide)
        return tuple(
            b.call(look, [table, v]) for v in (x, b.lshr(x, ir.Constant(wide, [4] * self.lanes)))
        )

    def _halves(self, word: Any) -> list[Any]:
        """Return the low and the high bits of all bytes of a word, as bytes."""
        b, kind = self.b, word.type
        low = ir.Constant(kind, [0x0F0F0F0F] * self.lanes)
        four = ir.Constant(kind, [4] * self.lanes)
        return [b.and_(word, low), b.and_(b.lshr(word, four), low)]

    def _split_words(self, words: list[Any], dtype: str) -> tuple[Any, ...]:
        return tuple(part for word in words for part in self._split_group(word, dtype))

    def _split_group(self, word: Any, dtype: str) -> tuple[Any, ...]:
        """Return a word as pairs of int16: itself, or its even and its odd bytes."""
        if self.dot == "groups" or self.word == 2 or self.has_byte_pairs:
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
