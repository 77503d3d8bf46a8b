"""What a map costs that stores along one axis and reads along another."""

from __future__ import annotations

from explorer.cost.structure import LEAST_BLOCK, loops_of
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, var


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


def test_what_turns_in_registers_is_not_read_element_by_element() -> None:
    kernel = mixed(64, 48)
    found = loops_of(kernel, kernel.computes[0])
    assert found.order == "map" and found.strided == 0


def test_an_axis_of_a_few_elements_does_not_turn() -> None:
    kernel = mixed(64, LEAST_BLOCK - 1)
    assert loops_of(kernel, kernel.computes[0]).strided == 1
