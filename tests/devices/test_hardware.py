"""A device with other figures: what a change means, what it may be, and what is compiled for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer import cli
from explorer.compiler.pipeline import device_of
from explorer.devices.hardware import Figure, Options, amount, changed, changes, figures
from explorer.devices.model import Device
from explorer.errors import BadOption, IronworksError
from explorer.ir.stage import Stage
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.settings import apply
from tests.examples import examples

MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
DEVICES = ("cpu", "v100", "a100", "mi50")


def value(device: Device, name: str) -> float:
    return next(f.value for f in figures(device) if f.name == name)


@pytest.mark.parametrize("name", DEVICES)
def test_every_figure_reads_as_it_was_set_and_alone(name: str) -> None:
    base = device_of(name)
    tied = {"units", "lanes", "fma_per_cycle", "clock_ghz"}  # others follow these
    for figure in figures(base):
        wanted = _other(figure)
        if base.kind == "cpu" and figure.name == "lanes":
            wanted = 4
        try:
            found = changed(base, {figure.name: wanted}.items())
        except BadOption as refused:
            assert "at most" in refused.sentence
            continue
        assert value(found, figure.name) == pytest.approx(wanted)
        if figure.name not in tied:
            assert [n for n, _, _ in changes(found)] == [figure.name]


def _other(figure: Figure) -> float:
    """Half of it, or twice where that is too little."""
    half = figure.value // 2 if figure.number.is_integer else figure.value / 2
    return half if half >= figure.number.low and half != figure.value else 2 * figure.value + 1


@pytest.mark.parametrize("name", DEVICES)
def test_with_more_units_shared_memory_is_as_fast_and_own_memory_as_fast_for_each(
    name: str,
) -> None:
    base = device_of(name)
    twice = changed(base, [("units", 2 * base.units)])
    for level in base.levels:
        there = twice.level(level.name)
        if level.shared:
            assert twice.all_gb_per_s(there) == pytest.approx(base.all_gb_per_s(level))
        else:
            assert twice.each_gb_per_s(there) == base.each_gb_per_s(level)
    assert twice.reached_gflops_per_unit == base.reached_gflops_per_unit


def test_with_another_clock_kernels_reach_the_same_share_of_the_peak() -> None:
    base = device_of("v100")
    slow = changed(base, [("clock_ghz", base.clock_ghz / 2)])
    assert slow.reached_gflops_per_unit == pytest.approx(base.reached_gflops_per_unit / 2)
    told = changed(base, [("clock_ghz", 1.0), ("sustained_gflops", 5000.0)])
    assert told.sustained_gflops == pytest.approx(5000)


def test_a_change_of_a_changed_device_is_one_of_the_device_that_it_was() -> None:
    base = device_of("v100")
    first = changed(base, [("units", 160)])
    second = changed(first, [("clock_ghz", 1.0)])
    assert second == changed(base, [("clock_ghz", 1.0)])
    assert second.units == base.units
    assert changed(second, [("clock_ghz", base.clock_ghz)]) is base
    assert changed(base, [("units", float(base.units))]) is base
    assert changed(second, ()) is second


def test_this_machine_with_other_figures_is_no_data_sheet() -> None:
    options = explorer.Options(hardware=Options((("units", 3.0),)))
    c = explorer.compile(MODEL, options=options, until=Stage.PLANNED)
    with pytest.raises(BadOption, match="it was compiled until PLANNED memory only"):
        c.run({})


def test_a_changed_device_is_a_target_as_any_other() -> None:
    c = explorer.compile(MODEL, "v100", explorer.Options(hardware=Options((("units", 160.0),))))
    again = explorer.compile(MODEL, c.device)
    assert again.device.units == 160
    assert again.planned_wall().total_us == c.planned_wall().total_us


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("unts", 3, "did you mean 'units'"),
        ("units", 1.5, "units of v100 is a whole number from 1 to 65,536, found 1.5"),
        ("units", 0, "found 0"),
        ("clock_ghz", -1, "clock_ghz of v100 is a number above 0, at most 100"),
        ("block_threads", 4096, "block_threads of v100 is at most unit_threads, which is 2048"),
        ("cost tile", 3, "no figure 'cost tile'"),
    ],
)
def test_what_is_no_figure_is_told(name: str, wanted: float, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        changed(device_of("v100"), [(name, wanted)])


def test_a_cpu_has_vectors_that_code_is_printed_for() -> None:
    with pytest.raises(BadOption, match="lanes of this-cpu is 4, 8, 16 on a CPU, found 5"):
        changed(device_of("cpu"), [("lanes", 5)])


@pytest.mark.parametrize(
    "wrong", [3, "units", (("units", "x"),), (("units", float("nan")),), {1: 2}]
)
def test_options_hold_names_and_numbers(wrong: object) -> None:
    with pytest.raises(BadOption, match=r"hardware\.changed is pairs"):
        Options(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [("160", 160), (" 1.5 ", 1.5), ("512 KiB", 512 << 10), ("2MiB", 2 << 20), ("1e3", 1000)],
)
def test_amounts_have_binary_suffixes(text: str, found: float) -> None:
    assert amount(text) == found


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1 KB", "1 2", "1" * 400, "0x10"])
def test_what_is_no_amount_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        amount(text)


def test_a_figure_is_set_as_text_and_the_last_one_holds() -> None:
    texts = ("hardware.units=160", "hardware.L2 capacity=1 MiB", "hardware.units=40")
    found = apply(explorer.Options(), texts)
    assert dict(found.hardware.changed) == {"units": 40, "L2 capacity": 1 << 20}
    with pytest.raises(BadOption, match=r"hardware\.units takes a number, not 'many'"):
        apply(explorer.Options(), ["hardware.units=many"])


def test_the_terminal_plans_for_changed_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["ram", MODEL, "--target", "v100", "--set", "hardware.units=160"]
    assert cli.main(flags) == 0
    assert "v100, changed, predicted: 160 streaming multiprocessors" in capsys.readouterr().out


def test_what_is_compiled_for_this_machine_with_other_figures_runs_and_is_right() -> None:
    c = explorer.compile(MODEL)
    inputs = random_inputs(c.model.program, c.hint)
    small = {"L2 capacity": 64 << 10, "cost tile": 3000.0, "units": 3.0, "DRAM bandwidth": 1.0}
    other = c.with_options(hardware=Options(tuple(small.items())))
    assert other.device.is_this_cpu and other.device.name == "this-cpu, changed"
    for name, answer in c.run(inputs).items():
        np.testing.assert_allclose(other.run(inputs)[name], answer, rtol=1e-5, atol=1e-5)
    again = other.with_options(hardware=Options())
    assert again.device is c.device and again.program == c.program


def test_more_bandwidth_is_no_slower_for_a_copy() -> None:
    model = explorer.load(explorer.trace(lambda x: x + 1.0)(explorer.tensor("float32", 1 << 22)))
    c = explorer.compile(model, "v100")
    fast = c.with_options(hardware=Options((("DRAM bandwidth", 1500.0),)))
    ratio = c.planned_wall().total_us / fast.planned_wall().total_us
    assert 1.7 < ratio <= 2.0


@settings(max_examples=examples(25, few=8), deadline=None)
@given(st.data())
def test_any_legal_figures_give_a_plan_or_a_sentence(data: st.DataObject) -> None:
    base = device_of(data.draw(st.sampled_from(DEVICES)))
    chosen = data.draw(st.lists(st.sampled_from(figures(base)), min_size=1, max_size=3))
    wanted = {f.name: data.draw(_values(f), label=f.name) for f in chosen}
    try:
        options = explorer.Options(hardware=Options(tuple(wanted.items())))
        c = explorer.compile(MODEL, base, options, until=Stage.PLANNED)
    except IronworksError:
        return
    us = c.planned_wall().total_us
    assert us > 0 and np.isfinite(us)


def _values(figure: Figure) -> st.SearchStrategy[float]:
    low, high = figure.number.low, figure.number.high
    near = [figure.value * x for x in (0.01, 0.3, 0.5, 2, 3, 100)]
    if figure.number.is_integer:
        near = [float(max(low, min(high, int(x)))) for x in near]
    if figure.name == "units":
        return st.sampled_from([x for x in near if x <= 512])
    return st.sampled_from([*near, low, min(high, 1e7)])


def test_a_source_stands_beside_every_figure_of_a_sheet() -> None:
    assert all(f.source for f in figures(device_of("v100")))
    measured = [f for f in figures(device_of("cpu")) if f.group == "memory" and not f.source]
    assert not measured, "what this machine tells of its memory has a source as well"
    assert replace(figures(device_of("cpu"))[0], value=1).legal.startswith("a whole number")
