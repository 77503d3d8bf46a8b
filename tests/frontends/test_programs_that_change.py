"""Random functions that change elements of arrays give what NumPy gives, on one worker and two."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.ir.calls import KernelCall
from explorer.rammer import Options as RammerOptions
from tests.frontends.programs_that_change import ROWS, WIDTH, Writer

QUICK, ALL = 8, 200


def written(seed: int, folder: Path) -> Any:
    """The function, in a file of its own: what is traced has a text."""
    path = folder / f"program{seed}.py"
    path.write_text(Writer(seed).text(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.function


def check(seed: int, folder: Path) -> int:
    """How many kernels of the function write in place."""
    function = written(seed, folder)
    x = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)
    options = explorer.Options(rammer=RammerOptions(threads=1 + seed % 2))
    c = explorer.compile(explorer.trace(function), options=options)
    for k in (0, 1, 4):
        with np.errstate(all="ignore"):
            wanted = function(x.copy(), np.int64(k))
        for found, right in zip(c.run(x, np.int64(k)).values(), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}")
    calls = (b.expr for _, b in c.program.bindings() if isinstance(b.expr, KernelCall))
    return sum(len(call.kernel.updates) for call in calls)


def test_random_functions_change_what_they_change_in_numpy(tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path) for seed in range(QUICK)) > QUICK


@pytest.mark.exhaustive
def test_many_random_functions_change_what_they_change_in_numpy(tmp_path: Path) -> None:
    for seed in range(QUICK, ALL):
        check(seed, tmp_path)
