"""A device that is better in one figure is planned no worse, but for what is not chosen from: grids
are some of those that there are, and what is fused is decided by another model. How much that may
be is what was seen at most over tiny models of the zoo on three GPUs, and a little more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

import explorer
from explorer.compiler.options import Options
from explorer.devices.catalogue import device
from explorer.devices.hardware import Options as Hardware
from explorer.devices.hardware import changed
from explorer.devices.model import Device
from explorer.rammer import device_sheet_kernels
from explorer.runtime.executable import Executable

GPUS = ("v100", "a100", "h100")
QUICK = ("zoo:tiny_resnet18", "zoo:tiny_lstm")
MODELS = (*QUICK, "zoo:tiny_bert", "zoo:tiny_mobilenetv2", "zoo:tiny_vit", "zoo:tiny_gpt2")
WORSE = 0.06  # of the quick ones: 4 % were seen
MOST_WORSE = 0.1  # of all: 4 % were seen, of tiny_bert on an A100 with all of its shared memory
ANEW_WORSE = 0.5  # compiled anew: 45 % were seen, before tiles were weighed step by step
FIGURES = ("units", "clock_ghz", "DRAM bandwidth", "shared memory")


def varied(d: Device, figure: str, times: float) -> Device:
    """With half or twice of one figure."""
    values = {
        "units": {"units": int(d.units * times)},
        "clock_ghz": {"clock_ghz": d.clock_ghz * times},
        "DRAM bandwidth": {"DRAM bandwidth": d.all_gb_per_s(d.levels[-1]) * times},
        "shared memory": {
            "L1 capacity": int((d.levels[0].capacity_bytes or 0) * times),
            "block_shared_bytes": int(d.block_shared_bytes * times),
            "unit_shared_bytes": int(d.unit_shared_bytes * times),
        },
    }
    return changed(d, values[figure])


@lru_cache(maxsize=32)
def compiled(model: str, gpu: str) -> explorer.Compilation:
    return explorer.compile(model, target=gpu, until="planned")


def same_us(c: explorer.Compilation, d: Device) -> float:
    return Executable(c.program, c.codes, d).planned_wall(c.hint).total_us


def pairs() -> Iterator[tuple[str, float]]:
    return ((figure, times) for figure in FIGURES for times in (0.5, 2.0))


@pytest.mark.few(1)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[] if m in QUICK else pytest.mark.exhaustive) for m in MODELS]
)
def test_the_same_program_is_not_planned_worse_on_a_better_device(model: str, gpu: str) -> None:
    c = compiled(model, gpu)
    us = c.planned_wall().total_us
    for figure, times in pairs():
        other = same_us(c, varied(c.device, figure, times))
        better, worse = (us, other) if times < 1 else (other, us)
        most = WORSE if model in QUICK else MOST_WORSE
        assert better <= (1 + most) * worse, (figure, times, us, other)


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("model", MODELS)
def test_a_program_compiled_anew_is_not_planned_worse_on_a_better_device(
    model: str, gpu: str
) -> None:
    c = compiled(model, gpu)
    us = c.planned_wall().total_us
    for figure, times in pairs():
        target = varied(c.device, figure, times)
        other = explorer.compile(model, target=target, until="planned").planned_wall().total_us
        better, worse = (us, other) if times < 1 else (other, us)
        assert better <= (1 + ANEW_WORSE) * worse, (figure, times, us, other)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "gpu"), [("zoo:tiny_bert", "a100"), ("zoo:tiny_resnet18", "v100")]
)
def test_the_wall_decides_how_many_blocks_are_resident(
    model: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an estimate, which knows neither who waits for whom nor who runs beside."""
    c = compiled(model, gpu)
    whole = same_us(c, device(gpu))
    each = []
    every = device_sheet_kernels.held_each
    for n in range(device_sheet_kernels.MOST_RESIDENT_COUNTS):
        monkeypatch.setattr(
            device_sheet_kernels, "held_each", lambda *a, n=n: every(*a)[n : n + 1] or every(*a)
        )
        each.append(same_us(c, device(gpu)))
    assert whole == pytest.approx(min(each)) and whole <= each[0]


@pytest.mark.exhaustive
def test_half_of_the_bandwidth_does_not_help_squeezenet() -> None:
    """It did: by tiles that filled the last wave, which another balance of the V100 met."""
    c = compiled("zoo:squeezenet", "v100")
    us = c.planned_wall().total_us
    assert us <= same_us(c, varied(c.device, "DRAM bandwidth", 0.5))
    assert us <= 150


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["zoo:tiny_bert", "zoo:tiny_vit"])
def test_more_cores_take_no_longer(model: str) -> None:
    """Tiles were cut finer until each core had a task, however much each then read again: 64 cores
    took longer than 8.
    """
    before = float("inf")
    for units in (2, 8, 64):
        options = Options(hardware=Hardware({"units": units}))
        c = explorer.compile(model, target="cpu-avx512", until="planned", options=options)
        took = c.planned_wall().total_us
        assert took <= 1.02 * before, (units, took, before)
        before = took
