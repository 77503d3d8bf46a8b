"""Which statements become one loop, what is made in the output, and what stays apart."""

from __future__ import annotations

from explorer.ir.kernel import Apply, Axis, Compute, Kernel, TensorSpec, apply, at, axes
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.ir.tile_program import For, Map, OnePass, Reduce, Statement, TileProgram, fetches
from explorer.tile.lowering.block_by_block import BLOCK, block_by_block
from explorer.tile.rewriting.keep_in_output import in_output
from explorer.tile.rewriting.one_pass import in_one_pass
from explorer.transforms.softmax import in_blocks, softmax_of
from tests.codegen.cases import attention, layer_norm, linear, softmax_computes
from tests.tile.programs import after

M, N = 3, 40  # rows too few for a block


def softmax() -> Kernel:
    lead, r = axes("s", (M,)), Axis("r", N)
    shapes = {"x": (M, N), "y_max": (M,), "y_exp": (M, N), "y_sum": (M,), "y": (M, N)}
    tensors = tuple(TensorSpec(name, shape) for name, shape in shapes.items())
    return Kernel("softmax", tensors, softmax_computes("x", "y", lead, r), ("x",), ("y",))


def lowered(kernel: Kernel) -> TileProgram:
    named, _ = canonical(normalise(kernel))
    return after("share scratch", named)


def rows(program: TileProgram) -> tuple[Statement, ...]:
    (loop,) = program.body
    assert isinstance(loop, For)
    return loop.body


def test_softmax_takes_exp_and_its_sum_in_one_pass() -> None:
    top, middle, last = rows(lowered(softmax()))
    assert isinstance(top, Reduce) and isinstance(last, Map) and isinstance(middle, OnePass)
    power, total = middle.parts
    assert isinstance(power, Map) and isinstance(total, Reduce)
    assert total.expr == power.target and total.over == power.spans


def test_its_powers_lie_in_the_output() -> None:
    program = lowered(softmax())
    _, middle, last = rows(program)
    assert isinstance(middle, OnePass) and isinstance(last, Map)
    assert middle.parts[0].target == last.target and last.target in fetches(last.expr)
    assert all(b.kind != "scratch" or b.size == 1 for b in program.buffers)


def test_a_fold_of_what_needs_another_folds_result_waits_for_it() -> None:
    kinds = [type(s) for s in rows(lowered(layer_norm(M, N, {}).kernel))]
    assert kinds == [Reduce, Reduce, Map]


def test_two_folds_of_the_same_points_are_one_pass() -> None:
    a, r = axes("a", (M,)), Axis("r", N)
    x = at("x", (*a, r))
    both = Apply("sub", (at("hi", a), at("lo", a)))
    computes = (
        Compute("lo", a, x, (r,), "min"),
        Compute("hi", a, x, (r,), "max"),
        Compute("y", (*a, r), Apply("div", (x, both))),
    )
    shapes = {"x": (M, N), "lo": (M,), "hi": (M,), "y": (M, N)}
    tensors = tuple(TensorSpec(k, s) for k, s in shapes.items())
    first, last = rows(lowered(Kernel("range", tensors, computes, ("x",), ("y",))))
    assert isinstance(first, OnePass) and isinstance(last, Map)
    assert [type(p) for p in first.parts] == [Reduce, Reduce]


def test_a_map_that_is_read_beside_its_point_stays_apart() -> None:
    a, r = axes("a", (M,)), Axis("r", N - 1)
    column = Axis("c", N)
    double = Compute("t", (*a, column), apply("mul", at("x", (*a, column)), 2.0))
    total = Compute("s", a, at("t", (*a, r)), (r,), "sum")
    y = Compute("y", (*a, column), Apply("mul", (at("t", (*a, column)), at("s", a))))
    shapes = {"x": (M, N), "t": (M, N), "s": (M,), "y": (M, N)}
    tensors = tuple(TensorSpec(k, s) for k, s in shapes.items())
    program = lowered(Kernel("part", tensors, (double, total, y), ("x",), ("y",)))
    assert not any(isinstance(s, OnePass) for s in rows(program))


def test_nothing_to_join_is_left_as_it_was() -> None:
    body = lowered(linear(5, 7, 9, "relu", {}).kernel).body
    assert in_one_pass(body) == body and in_output(body) == body


def test_the_blocks_of_a_row_are_walked_where_no_output_has_them() -> None:
    kernel = normalise(attention(1, 32, 2, 16, {}).kernel)
    assert block_by_block(kernel, propagate(kernel, {})) is None


def test_a_loop_over_blocks_leaves_one_block_in_scratch() -> None:
    kernel = normalise(attention(1, 32, 2, 16, {}).kernel)
    found = softmax_of(kernel)
    assert found is not None
    blocked = normalise(in_blocks(kernel, found, 8))
    made = block_by_block(blocked, propagate(blocked, {}))
    assert made is not None and made.span.axis == BLOCK and made.span.size == 4
    assert made.last - made.first == 6
    scores = blocked.computes[made.first].out
    assert len(made.kernel.shape(scores)) == len(blocked.shape(scores)) - 1
    assert made.kernel.shape("sums") == blocked.shape("sums")
