"""Replicas with parts of each batch are one model with all of it, and the same to the bit."""

from __future__ import annotations

import subprocess
import sys
import threading
from ast import literal_eval
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from shutil import which
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as enp
from explorer.errors import Cancelled, ShapeError
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, Fitted, LossScale, Timeline, on_threads
from explorer.transforms.autodiff.options import Options as Rematerialised
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


@pytest.mark.few(1)
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


WIDE = 3, 512  # layers of 1 MiB: each has a bucket
WIDE_PARAMS = {
    f"w{n}": np.random.default_rng(n).standard_normal((WIDE[1],) * 2).astype(np.float32) / 16
    for n in range(WIDE[0])
}
WIDE_DATA = [(np.random.default_rng(9).standard_normal((8, WIDE[1])).astype(np.float32),)] * 6
ONE_THREAD = explorer.Options(rammer=RammerOptions(threads=1))


def wide(p: Any, x: Any) -> Any:
    for n in range(WIDE[0]):
        x = enp.tanh(x @ p[f"w{n}"])
    return (x * x).mean()


def abreast(
    ranks: Sequence[Any], data: Any = WIDE_DATA, params: Any = WIDE_PARAMS, **options: Any
) -> list[Fitted]:
    """A run of a replica for each rank, of a model of several buckets."""
    given: dict[str, Any] = {"options": ONE_THREAD, **options}
    with ThreadPoolExecutor(len(ranks)) as pool:
        runs = [
            pool.submit(explorer.fit, wide, params, data, Adam(0.01), ranks=rank, **given)
            for rank in ranks
        ]
        return [run.result() for run in runs]


@pytest.mark.exhaustive
def test_the_ordinary_form_comes_to_the_same_bits_and_its_hosts_read_each_step() -> None:
    scale = LossScale()
    found = abreast(on_threads(2), scale=scale)
    before = explorer.counters.host_reads
    ordinary = abreast(on_threads(2), scale=scale, sync_free=False)
    assert explorer.counters.host_reads == before + 2 * len(WIDE_DATA)
    assert [run.losses for run in ordinary] == [run.losses for run in found]
    for name in WIDE_PARAMS:
        np.testing.assert_array_equal(ordinary[1].params[name], found[0].params[name])
    for run in ordinary:
        spans = run.timeline.spans
        assert run.timeline.hidden == 0
        for step in range(run.step):
            mine = {what: [s for s in spans if (s.what, s.step) == (what, step)] for what in ORDER}
            assert [len(mine[what]) for what in ORDER] == [1, WIDE[0], 1, 1, 1]
            ends = [(min(s.begin for s in m), max(s.end for s in m)) for m in mine.values()]
            assert all(a[1] <= b[0] for a, b in pairwise(ends))


ORDER = ("forward", "backward", "read", "reduce", "update")


def test_late_layers_are_summed_while_the_backward_pass_goes_on() -> None:
    """The sum of the first bucket of a step waits here until the next layer's gradient is made."""
    timelines: dict[int, Timeline] = {}

    @dataclass
    class Patient:
        own: Any
        asked: int = 0

        @property
        def rank(self) -> int:
            return int(self.own.rank)

        size, threaded = 2, True

        def total(self, part: np.ndarray) -> None:
            step, bucket = divmod(self.asked, WIDE[0])
            self.asked += 1
            ends = monotonic() + 20
            while step and bucket == 0 and monotonic() < ends:
                spans = tuple(timelines[self.rank].spans)
                if any((s.step, s.what, s.part) == (step, "backward", 2) for s in spans):
                    break
                sleep(0.001)
            else:
                assert not step or bucket, "the backward pass waits for a sum"
            self.own.total(part)

        def leave(self) -> None:
            self.own.leave()

    def told(rank: int) -> Callable[[Fitted], None]:
        return lambda fitted: timelines.update({rank: fitted.timeline})

    with ThreadPoolExecutor(2) as pool:
        ranks = [Patient(rank) for rank in on_threads(2)]
        runs = [
            pool.submit(
                explorer.fit, wide, WIDE_PARAMS, WIDE_DATA, Adam(0.01), ranks=rank,
                options=ONE_THREAD, progress=told(rank.rank),
            )
            for rank in ranks
        ]  # fmt: skip
        found = [run.result() for run in runs]
    plain = abreast(on_threads(2))
    for run in found:
        assert run.losses == plain[0].losses
        assert run.timeline.hidden > 0
        sums = [s for s in run.timeline.spans if s.what == "reduce" and s.step == 1]
        assert [s.about for s in sums] == ["w2", "w1", "w0"]
        assert all(s.bytes >= 4 * WIDE[1] ** 2 for s in sums)
    assert not [t for t in threading.enumerate() if t.name.startswith("training")]


def test_where_another_thread_may_not_speak_the_one_that_runs_steps_sums() -> None:
    asked: list[tuple[int, str]] = []

    @dataclass
    class Single:
        own: Any
        size, threaded = 2, False

        @property
        def rank(self) -> int:
            return int(self.own.rank)

        def total(self, part: np.ndarray) -> None:
            asked.append((self.rank, threading.current_thread().name))
            self.own.total(part)

        def leave(self) -> None:
            self.own.leave()

    found = abreast([Single(rank) for rank in on_threads(2)])
    assert found[0].losses == abreast(on_threads(2))[0].losses
    assert len(set(asked)) == 2 and len(asked) == 2 * WIDE[0] * len(WIDE_DATA)
    assert [run.timeline.hidden for run in found] == [0, 0]


@pytest.mark.exhaustive
def test_gradients_in_buckets_are_those_of_one_program() -> None:
    one = explorer.fit(wide, WIDE_PARAMS, WIDE_DATA, Adam(0.01), clip_norm=0.1)
    for run in abreast(on_threads(2), clip_norm=0.1):
        np.testing.assert_allclose(run.losses, one.losses, rtol=1e-5)
        np.testing.assert_allclose(run.params["w1"], one.params["w1"], rtol=1e-4, atol=1e-5)


DOUBLE = {name: w.astype(np.float64) for name, w in WIDE_PARAMS.items()}
KINDS: dict[str, dict[str, Any]] = {
    "float64": {"params": DOUBLE},
    "float32 and float64": {"params": {**WIDE_PARAMS, "w1": DOUBLE["w1"]}},
    "few bits": {"precision": "bfloat16", "scale": LossScale(), "rtol": 0.01},
    "several shapes": {"data": [(np.concatenate([x] * n),) for n, (x,) in enumerate(WIDE_DATA, 1)]},
    "in parts": {"parts": 2, "buckets": 1},
    "recomputed": {
        "options": replace(ONE_THREAD, rematerialisation=Rematerialised(share=0.6)),
        "buckets": 1,
    },
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_both_forms_of_replicas_are_one_model_whatever_a_step_is(kind: str) -> None:
    """Where a step's gradients come out of one loop, or are to take less memory, they are one
    program, and one bucket.
    """
    given = dict(KINDS[kind])
    rtol, count = given.pop("rtol", 1e-5), given.pop("buckets", WIDE[0])
    params, data = given.pop("params", WIDE_PARAMS), given.pop("data", WIDE_DATA)
    one = explorer.fit(wide, params, data, Adam(0.01), **{"options": ONE_THREAD, **given})
    found = abreast(on_threads(2), data, params, **given)
    ordinary = abreast(on_threads(2), data, params, sync_free=False, **given)
    assert found[0].losses == found[1].losses == ordinary[0].losses == ordinary[1].losses
    np.testing.assert_allclose(found[0].losses, one.losses, rtol=rtol)
    sums = [s for s in found[0].timeline.spans if (s.what, s.step) == ("reduce", 2)]
    assert len(sums) == count


@pytest.mark.parametrize("sync_free", [True, False])
def test_a_bucket_that_is_not_finite_in_one_replica_skips_the_step_in_all(sync_free: bool) -> None:
    (x,) = WIDE_DATA[0]
    broken = x.copy()
    broken[7, 0] = np.inf  # its first layer's gradient alone is not finite
    found = abreast(on_threads(2), [(broken,), (x,)], scale=LossScale(), sync_free=sync_free)
    assert [run.skipped for run in found] == [1, 1]
    assert [float(run.state["scale"]["scale"]) for run in found] == [32768, 32768]
    assert found[0].losses[1:] == found[1].losses[1:]
    for run in found:
        assert all(np.isfinite(a).all() for a in run.params.values())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_sum_in_the_order_of_the_replicas(count: int) -> None:
    draw = np.random.default_rng(count)
    parts = [(draw.standard_normal(1001) * 1e6).astype(np.float32) for _ in range(count)]
    wanted = reduce(np.add, parts)
    own = [p.copy() for p in parts]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda rank: rank.total(own[rank.rank]), on_threads(count)))
    for part in own:
        np.testing.assert_array_equal(part, wanted)


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
MPI_WIDE = """
from tests.training.test_replicas import *
from explorer.training import Mpi
ranks = Mpi()
for free in (True, False):
    found = explorer.fit(
        wide, WIDE_PARAMS, WIDE_DATA, Adam(0.01), ranks=ranks, options=ONE_THREAD, sync_free=free
    )
    sums = [s.about for s in found.timeline.spans if s.what == "reduce" and s.step == 3]
    print(repr((ranks.rank, free, found.losses, sums)), flush=True)
"""


def by_mpi(*more: str, script: str = MPI) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    if which("mpiexec") is None:
        pytest.skip("there is no mpiexec")
    command = ["mpiexec", "-n", "2", sys.executable, "-c", script, *more]
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
def test_processes_come_to_the_bits_of_threads_in_both_forms() -> None:
    found = by_mpi(script=MPI_WIDE)
    assert found.returncode == 0, found.stderr
    losses = abreast(on_threads(2))[0].losses
    assert sorted(map(literal_eval, found.stdout.splitlines())) == [
        (rank, free, losses, ["w2", "w1", "w0"] if free else [""])
        for rank in (0, 1)
        for free in (False, True)
    ]


@pytest.mark.slow
def test_a_process_that_ends_early_ends_those_of_mpi() -> None:
    found = by_mpi("dies")
    assert found.returncode != 0
    assert "replica 1 of 2 ends early: so do the others" in found.stderr
