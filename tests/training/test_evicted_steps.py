"""B5.10, end to end: training steps on a disk that has not room for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer import cache
from explorer.process.counters import Delta
from explorer.training import Adam
from tests.fresh_process import forgotten

X = np.random.default_rng(4).standard_normal((8, 5)).astype(np.float32)


def loss(p: Any, x: Any) -> Any:
    return (enp.tanh(x @ p["w"]) ** 2).mean()


def trained(width: int) -> tuple[list[float], Delta]:
    """Losses of three steps, by a process that remembers no program, and what they took."""
    w = np.random.default_rng(width).standard_normal((5, width)).astype(np.float32)
    forgotten()
    with explorer.counters.delta() as did:
        losses = explorer.fit(loss, {"w": w}, [(X,)] * 3, Adam(0.02)).losses
    cache.finish()
    return list(losses), did


@pytest.mark.exhaustive
def test_the_step_used_longest_ago_leaves_and_is_right_when_it_is_compiled_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = cache.disk()
    first, _ = trained(16)
    second, _ = trained(24)
    again, did = trained(16)  # used now, so it stays
    assert again == first and (did.pass_runs, did.kernel_compiles) == (0, 0)

    # Programs are of one size; kernels that this process uses elsewhere are not written again.
    limit = 2 * next(k.size_bytes for k in disk.stats().kinds if k.kind == "program")
    monkeypatch.setattr(disk, "limit_bytes", limit)
    _, did = trained(40)
    assert did.cache_evictions > 0 and disk.stats().size_bytes <= limit
    again, did = trained(16)
    assert again == first and (did.pass_runs, did.kernel_compiles) == (0, 0)
    again, did = trained(24)
    assert again == second and did.program_misses == 1 and did.pass_runs > 0
    assert disk.stats().size_bytes <= limit
