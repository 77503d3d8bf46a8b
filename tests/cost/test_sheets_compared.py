"""Plans for data sheets of three generations, side by side: what is newer takes less time where
arithmetic and bandwidth bound it, and waits where it must wait longer.
"""

from typing import Any

import pytest

import explorer
import explorer.np as xp
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.frontends import zoo

V100, A100, H100 = (device(name) for name in ("v100", "a100", "h100"))
SMALL = [name for name in zoo.names() if name.startswith(("tiny_", "small_"))]


@explorer.trace
def layers(x: explorer.tensor("float32", "rows", 512)) -> Any:  # type: ignore[valid-type]
    w = xp.ones((512, 512), xp.float32)
    return xp.tanh(x @ w)


def planned_us(model: Any, on: Device, **sizes: int) -> float:
    return explorer.compile(model, target=on.name, until="planned").planned_wall(sizes).total_us


def longest_waits(older: Device, newer: Device) -> float:
    """How many times as long the newer one waits, at most, for whatever it waits for."""
    pairs = [(older.phase_ns, newer.phase_ns), (older.barrier_us, newer.barrier_us)]
    pairs += [(m.latency_ns, newer.level(m.name).latency_ns) for m in older.levels if m.latency_ns]
    pairs += [(older.task_ns, newer.task_ns), (older.launch_us, newer.launch_us)]
    return max(new / old for old, new in pairs)


def test_large_products_take_less_on_each_newer_device() -> None:
    v100, a100, h100 = (planned_us(layers, on, rows=2048) for on in (V100, A100, H100))
    assert v100 > 1.2 * a100 and a100 > 1.5 * h100


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "small_bert" else pytest.mark.exhaustive) for n in SMALL],
)
def test_a_small_model_takes_longer_only_where_waits_are_longer(name: str) -> None:
    v100, a100, h100 = (planned_us(f"zoo:{name}", on) for on in (V100, A100, H100))
    assert h100 < a100
    assert a100 < longest_waits(V100, A100) * v100
