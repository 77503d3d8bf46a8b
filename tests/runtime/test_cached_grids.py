"""Thread blocks that were chosen once are read from this machine's disk, the same."""

from __future__ import annotations

import pytest

from explorer.devices.catalogue import device
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.roller.blocks import candidates as kept
from explorer.roller.blocks.candidates import cached_grids
from explorer.roller.blocks.gpu_candidates import grids
from tests.codegen.cases import linear
from tests.roller.operators import KERNELS, matmul
from tests.tile.gpu.products import narrow


@pytest.mark.few(2)
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("gpu", ["v100", "a100"])
@pytest.mark.parametrize(
    "kernel",
    [*KERNELS[8:10], matmul(1, 256, 4096), narrow(linear(64, 64, 64, "relu", {})).kernel],
    ids=lambda k: k.name,
)
def test_found_again_they_are_the_same(kernel, gpu: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    kernel, sheet = canonical(normalise(kernel))[0], device(gpu)
    want = grids(kernel, sheet)
    assert want and cached_grids(kernel, sheet, cold=False) == want
    monkeypatch.setattr(kept, "grids", lambda *_, **__: pytest.fail("weighed again"))
    assert cached_grids(kernel, sheet, cold=False) == want
    for other in ((sheet, True), (device("h100"), False)):  # is something else
        with pytest.raises(pytest.fail.Exception, match="weighed again"):
            cached_grids(kernel, *other)
