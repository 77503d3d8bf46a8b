"""What a kernel's tasks cost in one binding after the other, from one preparation."""

import pytest

import explorer
from explorer.cost.estimate import Estimate
from explorer.devices.costs import Costs
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.measure.fit import product, sample_kernel

DEVICE = Device(
    "two cores",
    "cpu",
    units=2,
    lanes=8,
    registers=16,
    fma_per_cycle=2.0,
    clock_ghz=3.0,
    levels=(
        MemoryLevel("L1", 32 << 10, 130.0, 64),
        MemoryLevel("L2", 1 << 20, 90.0, 64),
        MemoryLevel("L3", 32 << 20, 30.0, 64, shared=True),
        MemoryLevel("DRAM", None, 10.0, 64, shared=True),
    ),
    costs=Costs(),
)


@pytest.mark.parametrize("name", ["tiny_gpt2", "tiny_resnet18"])
def test_an_estimate_made_once_is_that_of_each_binding(name):
    c = explorer.compile(f"tests/data/{name}.onnx", until="rolled")
    for binding in c.program.kernel_calls[:12]:
        kernel = normalise(binding.expr.kernel)
        tiling = c.program.decisions.tiling(binding.var.name).chosen
        prepared = Estimate(kernel, tiling, c.device)
        for size in (1, 2, 7, 512):
            sizes = dict.fromkeys(c.hint, size)
            terms = prepared.terms(sizes)
            assert terms == Estimate(kernel, tiling, c.device).terms(sizes)
            assert terms[0][0] == "compute" and terms[-1][0] == "task"
            assert all(us >= 0 for _, us in terms)


def test_a_task_whose_weights_its_unit_has_just_read_takes_less():
    one_row = Estimate(product(1, 256, 1024), Tiling((("e1", 512),), Micro(1, 4, 8)), DEVICE)
    cold_us = sum(us for _, us in one_row.terms({}))
    assert (
        one_row.cached_constants_us({}) < 0.8 * cold_us
    )  # 1 MiB from L3, against half of it from an L2
    many_rows = Estimate(product(512, 64, 64), Tiling((), Micro(4, 2, 8)), DEVICE)
    assert many_rows.cached_constants_us({}) == pytest.approx(
        sum(us for _, us in many_rows.terms({})), rel=0.1
    )


def two_products(second_of: str) -> Kernel:
    """A row by 4 MiB that lie in L3, and that row or its results by 32 MiB in DRAM, added."""
    (rows,), wide = axes("i", (1,)), Axis("w", 8192)
    n, k, of = (Axis(name, 1024) for name in ("n", "k", "of"))
    first = Apply("mul", (at("x", (rows, k)), at("near", (k, n))))
    second = Apply("mul", (at(second_of, (rows, of)), at("far", (of, wide))))
    total = Apply("add", (at("z", (rows, wide)), Read("h", (var("i0"), Affine()))))
    computes = (
        Compute("h", (rows, n), first, (k,), "sum"),
        Compute("z", (rows, wide), second, (of,), "sum"),
        Compute("y", (rows, wide), total),
    )
    shapes = {"x": (1, 1024), "near": (1024, 1024), "far": (1024, 8192), "h": (1, 1024)}
    shapes |= {"z": (1, 8192), "y": (1, 8192)}
    return sample_kernel("two", shapes, computes, ("x", "near", "far"), ("near", "far"))


def test_a_product_of_a_product_awaits_both_memories_in_turn():
    tiling = Tiling((), Micro(1, 4, 8))
    independent, chained = (Estimate(two_products(x), tiling, DEVICE) for x in ("x", "h"))
    assert [len(e.phases) for e in (independent, chained)] == [1, 2]
    us = [sum(us for _, us in e.terms({})) for e in (independent, chained)]
    near_us = 4 * 1024 * 1024 / 30e3  # of 30 GB/s, which the other product's 10 GB/s hide
    assert us[1] - us[0] == pytest.approx(near_us, rel=0.15)
