"""Replicas with parts of each batch are one model with all of it, and the same to the bit."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, Cancelled, ShapeError
from explorer.training import Adam, Fitted, LossScale, on_threads
from tests.training.test_fit import X, Y, loss, params

ROOT = Path(__file__).parents[2]
WHOLE = [(X[n : n + 64], Y[n : n + 64]) for n in (0, 64, 128)] * 6


def together(count: int, data: Any = WHOLE, **options: Any) -> list[Fitted]:
    """A run of so many replicas."""
    with ThreadPoolExecutor(count) as pool:
        runs = [
            pool.submit(explorer.fit, loss, params(), data, Adam(0.05), ranks=rank, **options)
            for rank in on_threads(count)
        ]
        return [run.result() for run in runs]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_replicas_are_one_model_with_the_whole_batch(count: int) -> None:
    options: dict[str, Any] = {"scale": LossScale(), "clip_norm": 1.0}
    one = explorer.fit(loss, params(), WHOLE, Adam(0.05), **options)
    found, again = together(count, **options), together(count, **options)
    for run in found:
        assert run.program is not None  # that of the gradients
        np.testing.assert_allclose(run.losses, one.losses, rtol=1e-5)
        np.testing.assert_allclose(run.params["w"], one.params["w"], rtol=1e-4, atol=1e-5)
    for run in (*found[1:], *again):
        assert run.losses == found[0].losses
        np.testing.assert_array_equal(run.params["w"], found[0].params["w"])


def test_replicas_have_no_ordinary_form() -> None:
    (only,) = on_threads(1)
    with pytest.raises(BadOption, match="no ordinary form"):
        explorer.fit(loss, params(), WHOLE, ranks=only, sync_free=False)


def test_what_one_replica_finds_not_finite_no_replica_does() -> None:
    broken = X[:64].copy()
    broken[63, 0] = np.nan  # a row of the last one
    before = explorer.counters.host_reads
    found = together(2, [(broken, Y[:64]), (X[:64], Y[:64])], scale=LossScale())
    assert explorer.counters.host_reads == before
    assert [run.skipped for run in found] == [1, 1]
    assert found[0].state["scale"]["scale"] == found[1].state["scale"]["scale"] == 32768
    assert np.isfinite(found[0].params["w"]).all()


def test_who_ends_early_ends_the_others() -> None:
    first, second = on_threads(2)

    def ends(fitted: Fitted) -> None:
        if fitted.step == 3:
            raise RuntimeError("out of power")

    with ThreadPoolExecutor(2) as pool:
        dies = pool.submit(explorer.fit, loss, params(), WHOLE, ranks=first, progress=ends)
        waits = pool.submit(explorer.fit, loss, params(), WHOLE, ranks=second)
        with pytest.raises(RuntimeError, match="out of power"):
            dies.result()
        with pytest.raises(Cancelled, match="replica 1 waited for one that ended early"):
            waits.result()


def test_the_first_replica_writes_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    together(2, checkpoint=path)
    assert together(2, WHOLE, checkpoint=path, epochs=2)[1].step == 36
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_rows_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(ShapeError, match="shared by 3 replicas"):
        together(3, [(X[:64], Y[:64])])


MPI = """
from tests.training.test_replicas import *
from explorer.training import Mpi
ranks = Mpi()
def ends(fitted):
    if len(sys.argv) > 1 and ranks.rank == 1 and fitted.step == 3:
        raise RuntimeError("out of power")
found = explorer.fit(loss, params(), WHOLE, Adam(0.05), ranks=ranks, progress=ends)
print(repr((ranks.rank, found.losses)), flush=True)
"""


def by_mpi(*more: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    if which("mpiexec") is None:
        pytest.skip("there is no mpiexec")
    command = ["mpiexec", "-n", "2", sys.executable, "-c", MPI, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


@pytest.mark.slow
def test_processes_of_mpi_are_one_model() -> None:
    found, again = by_mpi(), by_mpi()
    assert found.returncode == 0, found.stderr
    lines = sorted(found.stdout.splitlines())
    assert len(lines) == 2
    assert lines == sorted(again.stdout.splitlines())
    one = explorer.fit(loss, params(), WHOLE, Adam(0.05))
    for line in lines:
        losses = [float(v) for v in line.partition("[")[2].rstrip(")]").split(",")]
        np.testing.assert_allclose(losses, one.losses, rtol=1e-5)


@pytest.mark.slow
def test_a_process_that_ends_early_ends_those_of_mpi() -> None:
    found = by_mpi("dies")
    assert found.returncode != 0
    assert "replica 1 of 2 ends early: so do the others" in found.stderr
