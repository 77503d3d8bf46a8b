"""What a kernel's tasks cost in one binding after the other, from one preparation."""

import pytest

import explorer
from explorer.cost.estimate import Estimate
from explorer.devices.costs import Costs
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernels.normal import normalise
from explorer.measure.fit import product

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
