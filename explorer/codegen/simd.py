"""What generated kernels call: addresses, loads and stores, selects, and the micro-kernels as LLVM
vector IR.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

F32, F64, I8, I32, I64 = (
    ir.FloatType(),
    ir.DoubleType(),
    ir.IntType(8),
    ir.IntType(32),
    ir.IntType(64),
)


@intrinsic
def argument(context, args, index):
    """The int64 at `args[index]`: an address or a dim."""

    def emit(cx, b, sig, a):
        return b.load(b.gep(b.inttoptr(a[0], I64.as_pointer()), [a[1]]))

    return types.intp(types.uintp, types.intp), emit


@intrinsic
def wide(context):
    """Lets LLVM use whole 512-bit registers in the loops of this function; it prefers half of them
    by default.
    """

    def emit(cx, b, sig, a):
        set.add(b.function.attributes, '"prefer-vector-width"="512"')
        return cx.get_dummy_value()

    return types.void(), emit


def _unsigned(operation: str) -> Any:
    @intrinsic
    def divide(context, x, y):
        def emit(cx, b, sig, a):
            return getattr(b, operation)(a[0], a[1])

        return types.intp(types.intp, types.intp), emit

    return divide


udiv, urem = _unsigned("udiv"), _unsigned("urem")

MEMORY = {
    "float32": (F32, types.float32),
    "float64": (F64, types.float64),
    "int64": (I64, types.int64),
    "int32": (I32, types.int32),
    "bool": (I8, types.boolean),
    "int8": (I8, types.int8),
    "uint8": (I8, types.uint8),
    "int16": (ir.IntType(16), types.int16),
    "uint16": (ir.IntType(16), types.uint16),
    "uint32": (I32, types.uint32),
    "uint64": (I64, types.uint64),
}


def _load(dtype: str) -> Any:
    cell, number = MEMORY[dtype]

    @intrinsic
    def ld(context, base, offset):
        def emit(cx, b, sig, a):
            at = b.gep(b.inttoptr(a[0], cell.as_pointer()), [a[1]], inbounds=True)
            value = b.load(at)
            return b.icmp_unsigned("!=", value, cell(0)) if dtype == "bool" else value

        return number(types.intp, types.intp), emit

    return ld


def _store(dtype: str) -> Any:
    cell, number = MEMORY[dtype]

    @intrinsic
    def st(context, base, offset, value):
        def emit(cx, b, sig, a):
            at = b.gep(b.inttoptr(a[0], cell.as_pointer()), [a[1]], inbounds=True)
            b.store(b.zext(a[2], cell) if dtype == "bool" else a[2], at)
            return cx.get_dummy_value()

        return types.void(types.intp, types.intp, number), emit

    return st


ACCESS: dict[str, Any] = {}
for _name in MEMORY:
    ACCESS[f"ld_{_name}"], ACCESS[f"st_{_name}"] = _load(_name), _store(_name)


@intrinsic
def select(context, condition, x, y):
    """`x` where the condition holds, else `y`, without a branch."""

    def emit(cx, b, sig, a):
        return b.select(a[0], a[1], a[2])

    return x(types.boolean, x, x), emit


@intrinsic
def maximum(context, x, y):
    """The larger one; NaN where either is (NumPy's maximum)."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            f = b.module.declare_intrinsic(
                "llvm.maximum", [a[0].type], ir.FunctionType(a[0].type, [a[0].type] * 2)
            )
            return b.call(f, [a[0], a[1]])
        less = b.icmp_signed if x.signed else b.icmp_unsigned
        return b.select(less("<", a[0], a[1]), a[1], a[0])

    return x(x, x), emit


@intrinsic
def minimum(context, x, y):
    """The smaller one; NaN where either is (NumPy's minimum)."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            f = b.module.declare_intrinsic(
                "llvm.minimum", [a[0].type], ir.FunctionType(a[0].type, [a[0].type] * 2)
            )
            return b.call(f, [a[0], a[1]])
        less = b.icmp_signed if x.signed else b.icmp_unsigned
        return b.select(less("<", a[0], a[1]), a[0], a[1])

    return x(x, x), emit


def _against(predicate: str) -> Any:
    @intrinsic
    def bounded(context, x, limit):
        """One instruction where the limit is a number and no NaN: NaN in the value stays."""

        def emit(cx, b, sig, a):
            return b.select(b.fcmp_ordered(predicate, a[1], a[0]), a[1], a[0])

        return x(x, x), emit

    return bounded


at_least, at_most = _against(">"), _against("<")


@intrinsic
def add_any_order(context, x, y):
    """A sum that may be reordered, so that a loop over it can use vectors."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fadd(a[0], a[1], flags=["reassoc", "nsz", "contract"])
        return b.add(a[0], a[1])

    return x(x, x), emit


@intrinsic
def mul_any_order(context, x, y):
    """A product that may be reordered."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fmul(a[0], a[1], flags=["reassoc", "nsz"])
        return b.mul(a[0], a[1])

    return x(x, x), emit


def _vector_function(module: Any, name: str, vec: Any, arity: int) -> Any:
    """An LLVM intrinsic on float32 vectors; llvmlite cannot name these itself."""
    full = f"llvm.{name}.v{vec.count}f32"
    return module.globals.get(full) or ir.Function(
        module, ir.FunctionType(vec, [vec] * arity), full
    )


@cache
def micro_kernel(
    rows: int,
    vectors: int,
    lanes: int,
    a_step: int,
    b_step: int,
    stride: int | None = None,
    tree: Any = "acc",
    steps: tuple[tuple[int, int], ...] = (),
) -> Any:
    """target[row][column] = tree of acc = sum over segments, k: a[table[row] + segment + k *
    a_step] * b[n * b_step + column].

    `stride`: rows of `a` a constant distance apart, addressed from the first one, instead of one
    register a row. `tree` is computed on the registers: "acc", a float, an operand's number, or
    (op, tree, ...). Operand 0 is the target; `steps` are the operands' distances from row to row
    and from column to column (0 or 1); default: a dense micro-tile.
    """
    places = steps or ((vectors * lanes, 1),)

    @intrinsic
    def contract(context, a, table, segments, count, depth, b, operands):
        def emit(cx, bd, sig, arguments):
            ap, tp, sp, count, depth, bp, others = arguments
            vec = ir.VectorType(F32, lanes)
            fma = _vector_function(bd.module, "fma", vec, 3)
            zero, none = ir.Constant(vec, [0.0] * lanes), ir.Constant(vec, ir.Undefined)
            same = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
            fp = F32.as_pointer()
            base, panel = bd.inttoptr(ap, fp), bd.inttoptr(bp, fp)
            tab, seg = bd.inttoptr(tp, I64.as_pointer()), bd.inttoptr(sp, I64.as_pointer())
            starts = [
                bd.gep(base, [bd.load(bd.gep(tab, [I64(i)]))])
                for i in range(rows if stride is None else 1)
            ]
            entry = bd.block
            outer, inner, after, done = (
                bd.append_basic_block(n) for n in ("segment", "depth", "after", "done")
            )
            bd.branch(outer)
            bd.position_at_end(outer)
            s, row0 = bd.phi(I64), bd.phi(fp)
            s.add_incoming(I64(0), entry)
            row0.add_incoming(panel, entry)
            acc0 = [bd.phi(vec) for _ in range(rows * vectors)]
            for phi in acc0:
                phi.add_incoming(zero, entry)
            offset = bd.load(bd.gep(seg, [s]))
            bd.branch(inner)
            bd.position_at_end(inner)
            k, row, count_k = bd.phi(I64), bd.phi(fp), bd.phi(I64)
            k.add_incoming(offset, outer)
            row.add_incoming(row0, outer)
            count_k.add_incoming(I64(0), outer)
            now = [bd.phi(vec) for _ in range(rows * vectors)]
            for phi, start in zip(now, acc0, strict=True):
                phi.add_incoming(start, outer)
            bs = [
                bd.load(bd.bitcast(bd.gep(row, [I64(j * lanes)]), vec.as_pointer()), align=4)
                for j in range(vectors)
            ]
            new = []
            for i in range(rows):
                at = (
                    bd.gep(starts[i], [k])
                    if stride is None
                    else bd.gep(starts[0], [bd.add(k, I64(i * stride))])
                )
                one = bd.insert_element(none, bd.load(at, align=4), I32(0))
                x = bd.shuffle_vector(one, none, same)
                new += [bd.call(fma, [x, bs[j], now[i * vectors + j]]) for j in range(vectors)]
            next_k, next_count = bd.add(k, I64(a_step)), bd.add(count_k, I64(1))
            next_row = bd.gep(row, [I64(b_step)])
            for phi, value in zip(
                (k, row, count_k, *now), (next_k, next_row, next_count, *new), strict=True
            ):
                phi.add_incoming(value, inner)
            bd.cbranch(bd.icmp_signed("<", next_count, depth), inner, after)
            bd.position_at_end(after)
            next_s = bd.add(s, I64(1))
            for phi, value in zip((s, row0, *acc0), (next_s, next_row, *new), strict=True):
                phi.add_incoming(value, after)
            bd.cbranch(bd.icmp_signed("<", next_s, count), outer, done)
            bd.position_at_end(done)
            pointers = [bd.inttoptr(bd.extract_value(others, n), fp) for n in range(len(places))]

            def place(n: int, i: int, j: int) -> Any:
                return bd.gep(pointers[n], [I64(i * places[n][0] + j * lanes * places[n][1])])

            def splat(x: Any) -> Any:
                return bd.shuffle_vector(bd.insert_element(none, x, I32(0)), none, same)

            def bounded(x: Any, limit: float, predicate: str) -> Any:
                c = ir.Constant(vec, [float(np.float32(limit))] * lanes)
                return bd.select(bd.fcmp_ordered(predicate, c, x), c, x)

            def leaf(t: Any, i: int, j: int) -> Any:
                match t:
                    case "acc":
                        return new[i * vectors + j]
                    case int() if places[t][1]:
                        return bd.load(bd.bitcast(place(t, i, j), vec.as_pointer()), align=4)
                    case int():
                        return splat(bd.load(place(t, i, j), align=4))
                    case float():
                        return ir.Constant(vec, [float(np.float32(t))] * lanes)
                    case ("max", x, float() as limit):
                        return bounded(leaf(x, i, j), limit, ">")
                    case ("min", x, float() as limit):
                        return bounded(leaf(x, i, j), limit, "<")
                    case ("max" | "min" as name, x, y):
                        f = _vector_function(bd.module, f"{name}imum", vec, 2)
                        return bd.call(f, [leaf(x, i, j), leaf(y, i, j)])
                    case (name, x, y):
                        return getattr(bd, f"f{name}")(
                            leaf(x, i, j), leaf(y, i, j), flags=["contract"]
                        )
                raise AssertionError(t)

            for i in range(rows):
                for j in range(vectors):
                    bd.store(
                        leaf(tree, i, j), bd.bitcast(place(0, i, j), vec.as_pointer()), align=4
                    )
            return cx.get_dummy_value()

        return types.void(*[types.intp] * 6, types.UniTuple(types.intp, len(places))), emit

    return contract


@intrinsic
def transpose16(context, source, source_step, target, target_step):
    """target[c * target_step + r] = source[r * source_step + c] for a block of 16 x 16 float32, in
    registers.
    """

    def emit(cx, b, sig, a):
        vec, n = ir.VectorType(F32, 16), 16
        src, dst = b.inttoptr(a[0], F32.as_pointer()), b.inttoptr(a[2], F32.as_pointer())
        rows = [
            b.load(b.bitcast(b.gep(src, [b.mul(a[1], I64(r))]), vec.as_pointer()), align=4)
            for r in range(n)
        ]
        for d in (8, 4, 2, 1):
            picks = (
                [n + c - d if c & d else c for c in range(n)],
                [n + c if c & d else c + d for c in range(n)],
            )
            low, high = (ir.Constant(ir.VectorType(I32, n), p) for p in picks)
            rows = [
                b.shuffle_vector(rows[r - d], rows[r], high)
                if r & d
                else b.shuffle_vector(rows[r], rows[r + d], low)
                for r in range(n)
            ]
        for c in range(n):
            b.store(
                rows[c], b.bitcast(b.gep(dst, [b.mul(a[3], I64(c))]), vec.as_pointer()), align=4
            )
        return cx.get_dummy_value()

    return types.void(*[types.intp] * 4), emit
