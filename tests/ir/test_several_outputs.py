"""Several outputs of a kernel: its text, what is well formed, its names, and its tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.errors import VerifyError
from explorer.ir.affine import var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at, axes
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.in_place import read_after, wrong_update
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.parser import parse_program
from explorer.ir.text.printer import print_kernel, print_program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.verify import verify
from explorer.ops.verify_kernel import verify_kernel
from tests.codegen.several_outputs import IN_PLACE, adam, product


def program_of(kernel: Kernel, results: int | None = None) -> Program:
    """One call of a kernel, each of its values an output."""
    args = tuple(Var(f"a_{n}", Tensor(kernel.shape(n), kernel.dtype(n))) for n in kernel.inputs)
    made = tuple(Var(f"r_{n}", Tensor(kernel.shape(n), kernel.dtype(n))) for n in kernel.outputs)
    binding = Binding(made[:results], KernelCall(kernel, args))
    main = Function("main", args, (binding,), made[:results], tuple(v.name for v in made[:results]))
    return Program((main,), stage=Stage.LEGALIZED)


@pytest.mark.parametrize("updates", [(), IN_PLACE, IN_PLACE[1:2]])
def test_the_text_reads_back(updates: tuple[tuple[str, str], ...]) -> None:
    program = program_of(adam((3, 5), updates))
    verify(program)
    text = print_program(program)
    assert parse_program(text, {}) == program
    assert "giving (x1, v1, h1)" in text
    assert ("v with v1" in text) == bool(updates)


def test_a_kernel_alone_shows_all_its_outputs() -> None:
    head = print_kernel(product(2, 3, 4)).splitlines()[0]
    assert head.endswith("-> y: float32[2, 3], t: float32[2, 3]")


def test_as_many_values_as_outputs_are_bound() -> None:
    with pytest.raises(VerifyError, match="2 values for 3 outputs"):
        verify(program_of(adam((3,)), 2))


def test_names_of_outputs_are_canonical() -> None:
    named, _ = canonical(normalise(adam((3,), IN_PLACE)))
    assert named.outputs == ("y0", "y1", "y2")
    assert named.updates == (("y0", "x0"), ("y1", "x2"), ("y2", "x3"))
    assert canonical(normalise(adam((3,))))[0] != named


def test_a_tile_of_one_output_is_a_tile_of_all() -> None:
    regions = propagate(product(12, 16, 3), {"i": 4, "j": 8}).tensors
    assert regions["t"] == regions["y"]
    assert [r.size for r in regions["a"]] == [4, 3]


def changed(kernel: Kernel, name: str, **more: object) -> Kernel:
    """The kernel with the compute of a tensor replaced in part."""
    computes = (replace(c, **more) if c.out == name else c for c in kernel.computes)  # type: ignore[arg-type]
    return replace(kernel, computes=tuple(computes))


GOOD = adam((4, 5))
OVER = axes("i", (4, 5))
OTHER = axes("j", (4, 5))
TURNED = Read("x", (var("i0"), var("i1") * -1 + 4))
BAD = {
    "occurs twice": replace(GOOD, outputs=("x1", "x1", "h1")),
    "never written": replace(GOOD, outputs=("x1", "v1", "g")),
    "the last compute must write": replace(GOOD, outputs=("v1", "h1")),
    "not the same shape and axes": changed(
        GOOD, "v1", axes=OTHER, expr=at("v", OTHER), store=(var("j0"), var("j1"))
    ),
    "written by several computes": replace(
        GOOD, computes=(Compute("v1", OVER, at("v", OVER)), *GOOD.computes)
    ),
    "reads of 'v1' what another tile writes": changed(
        GOOD, "x1", expr=Read("v1", (var("i0"), var("i1") * -1 + 4))
    ),
    "not an output over an input": replace(GOOD, updates=(("x", "x1"),)),
    "two updates are of one tensor": replace(GOOD, updates=(("x1", "x"), ("v1", "x"))),
    "another index than is written": replace(changed(GOOD, "x1", expr=TURNED), updates=IN_PLACE),
    "other elements are read after": replace(
        changed(GOOD, "x1", expr=at("v", OVER)), updates=IN_PLACE
    ),
}


@pytest.mark.parametrize("why", BAD)
def test_a_kernel_that_cannot_be_is_not_well_formed(why: str) -> None:
    verify_kernel(GOOD)
    with pytest.raises(VerifyError, match=why):
        verify_kernel(BAD[why])


def test_an_output_of_another_type_is_written_over_nothing() -> None:
    tensors = tuple(replace(t, dtype="float64") if t.name == "v1" else t for t in GOOD.tensors)
    wide = changed(GOOD, "v1", expr=apply("cast_float64", at("v", OVER)))
    wide = changed(wide, "x1", expr=at("x", OVER))
    wide = replace(wide, tensors=tensors, updates=IN_PLACE[1:2])
    with pytest.raises(VerifyError, match="another type"):
        verify_kernel(wide)


def test_what_is_written_over_in_part_may_be_read_elsewhere() -> None:
    """As the parts of a concatenation are, which lie beside each other in one tensor."""
    i = Axis("i", 2)
    part = Compute("y", (i,), Read("x", (var("i"),)), store=(var("i") + 2,))
    specs = (TensorSpec("x", (4,)), TensorSpec("y", (4,)))
    kernel = Kernel("part", specs, (part,), ("x",), ("y",), updates=(("y", "x"),))
    assert read_after(kernel, "y", "x") and not wrong_update(kernel)
    verify_kernel(kernel)
