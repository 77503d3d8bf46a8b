"""The bandwidths of this machine, and the fit of the model's constants with its errors."""

from __future__ import annotations

from operator import mul
from random import Random
from statistics import median

import pytest

from explorer.cost.counts import Counts
from explorer.devices.costs import NAMES, Costs, costs_from
from explorer.measure.fit import Bandwidth, Observation, bandwidths, fitted, probes
from explorer.measure.this_cpu import code_of
from tests.roller.test_policy import DEVICE

TRUE = Costs(tile=50.0, pack=0.4, run=3.0, vector=1.25, start=90.0)


def seen(count: int, noise: float = 0.0) -> list[Observation]:
    """Kernels that take exactly, or nearly, what the true constants say."""
    random = Random(3)
    out = []
    for n in range(count):
        each = [float(random.randrange(1, 20)) for _ in NAMES]
        each[n % len(NAMES)] = 4000.0  # a probe is mostly about one of them
        counts = Counts(random.random() * 1e3, each)
        cycles = counts.multiply + sum(a * b for a, b in zip(each, TRUE.values, strict=True))
        out.append(Observation(f"probe {n}", counts, cycles * (1 + random.gauss(0, noise)), 0.01))
    return out


def test_constants_are_recovered_from_what_they_explain() -> None:
    found = fitted(DEVICE, seen(200))
    assert found.values == pytest.approx(TRUE.values, rel=0.1, abs=0.05)
    assert all(f.modelled_us == pytest.approx(f.measured_us, rel=0.02) for f in found.fits)


def test_noise_stays_in_the_residuals() -> None:
    found = fitted(DEVICE, seen(60, 0.1))
    errors = [abs(f.modelled_us / f.measured_us - 1) for f in found.fits]
    assert 0.02 < sum(errors) / len(errors) < 0.15
    assert [f.spread for f in found.fits] == [0.01] * 60


def test_a_fit_lowers_the_error_of_kernels_that_it_did_not_see() -> None:
    known, held_out = seen(120, 0.05)[:60], seen(120, 0.05)[60:]
    errors = [
        median(
            abs((o.counts.multiply + sum(map(mul, o.counts.each, costs.values))) / o.cycles - 1)
            for o in held_out
        )
        for costs in (Costs(), fitted(DEVICE, known))
    ]
    assert errors[1] < 0.08 < errors[0]


def test_what_no_probe_tells_stays_as_it_was_and_nothing_is_negative() -> None:
    counts = Counts(0.0, [1000.0 if n == "vector" else 0.0 for n in NAMES])
    found = fitted(DEVICE, [Observation("only vectors", counts, 2000.0, 0.0)])
    assert found.vector == pytest.approx(2.0, rel=0.01)
    assert found.tile == Costs().tile and found.pack == Costs().pack
    none = fitted(DEVICE, [Observation("for nothing", counts, -500.0, 0.0)])
    assert none.vector == 0.0


@pytest.mark.parametrize(("lanes", "registers"), [(4, 16), (8, 16), (16, 32)])
def test_no_register_tile_of_a_probe_spills(lanes: int, registers: int) -> None:
    products = [p for p in probes(lanes, registers) if p.name.startswith("contraction")]
    assert len(products) == 2
    assert all(p.tiling.micro.registers <= registers for p in products)


def test_every_constant_is_counted_by_some_probe() -> None:
    from explorer.cost.estimate import Estimate

    total = [0.0] * len(NAMES)
    for probe in probes(16, 32):
        estimate = Estimate(probe.kernel, probe.tiling, DEVICE, once=True)
        for binding in probe.bindings:
            total = [a + b for a, b in zip(total, estimate.counts(dict(binding)).each)]
    assert not [n for n, count in zip(NAMES, total, strict=True) if count == 0]


def test_costs_are_read_back_from_plain_fields() -> None:
    from dataclasses import asdict

    found = fitted(DEVICE, seen(3))
    assert costs_from(asdict(found)) == found


def test_a_byte_stored_costs_what_a_copy_takes_beyond_reading() -> None:
    assert Bandwidth("L3", 100.0, 100.0, 0, 0).store_weight == pytest.approx(1.0)
    assert Bandwidth("L3", 100.0, 50.0, 0, 0).store_weight == pytest.approx(3.0)
    assert Bandwidth("L3", 100.0, 400.0, 0, 0).store_weight == 0.0


def test_every_level_is_read_and_copied_by_one_unit_and_by_all() -> None:
    from explorer.measure.fit import COPY, READ

    spans = {"L1": 16 << 10, "L2": 128 << 10, "L3": 1 << 20}
    read, copy = code_of(READ), code_of(COPY)
    found = bandwidths(spans, frozenset({"L3"}), 2, read.address, copy.address)
    assert [b.level for b in found] == list(spans)
    for b in found:
        assert min(b.read, b.copy, b.read_together, b.copy_together) > 0.1
