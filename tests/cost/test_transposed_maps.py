"""The cost of a map that stores along one axis and reads along another."""

from __future__ import annotations

from explorer.cost.loops import Loops, loops_of
from explorer.ir.affine import var
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.tile.lowering.lower import untiled_loops
from explorer.tile.rewriting.loop_form import LEAST_SIDE_ELEMENTS
from tests.roller.test_policy import DEVICE


def mixed(rows: int, columns: int) -> Kernel:
    """`y[j, i] = x[i, j] * c[j]`."""
    tensors = (
        TensorSpec("x", (rows, columns)),
        TensorSpec("c", (columns,)),
        TensorSpec("y", (columns, rows)),
    )
    expr = Apply("mul", (Read("x", (var("i"), var("j"))), Read("c", (var("j"),))))
    compute = Compute("y", (Axis("j", columns), Axis("i", rows)), expr)
    return Kernel("mixed", tensors, (compute,), ("x", "c"), ("y",))


def loops(kernel: Kernel) -> Loops:
    """Of its first compute."""
    return loops_of(kernel, kernel.computes[0], untiled_loops(kernel)(0), DEVICE)


def test_what_turns_in_registers_is_not_read_element_by_element() -> None:
    kernel = mixed(64, 48)
    found = loops(kernel)
    assert found.order == "turned" and found.strided == 0


def test_an_axis_of_a_few_elements_does_not_turn() -> None:
    kernel = mixed(64, LEAST_SIDE_ELEMENTS - 1)
    assert loops(kernel).strided == 1
