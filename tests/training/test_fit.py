"""A training run: right, resumed to the bit, its threads ended, its data made ahead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadCheckpoint, BadOption, DtypeError
from explorer.rammer import Options as RammerOptions
from explorer.training import (
    SGD,
    Adam,
    AdamW,
    Cosine,
    Fitted,
    LossScale,
    Timeline,
    cross_entropy,
    dropout,
)
from explorer.training.prefetcher import Prefetcher

DRAW = np.random.default_rng(0)
W = DRAW.standard_normal((8, 3)).astype(np.float32)
X = DRAW.standard_normal((200, 8)).astype(np.float32)
Y = (X @ W).argmax(1)


def params() -> dict[str, np.ndarray]:
    return {"w": np.zeros((8, 3), np.float32), "b": np.zeros(3, np.float32)}


def loss(p: Any, x: Any, y: Any) -> Any:
    return cross_entropy(x @ p["w"] + p["b"], y)


def right(p: Any, x: Any, y: Any) -> Any:
    return ((x @ p["w"] + p["b"]).argmax(-1) == y).astype("float32").mean()


def shuffled(epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of 64, and the rest."""
    order = np.random.default_rng(epoch).permutation(len(X))
    for first in range(0, len(X), 64):
        rows = order[first : first + 64]
        yield X[rows], Y[rows]


def no_thread_is_left() -> bool:
    return not [t for t in threading.enumerate() if t.name.startswith("training-")]


@pytest.mark.exhaustive
def test_a_model_learns_and_the_arrays_given_stay() -> None:
    given = params()
    found = explorer.fit(
        loss,
        given,
        shuffled,
        Adam(0.05),
        epochs=15,
        validate=[(X, Y)],
        metrics={"right": right},
        schedule=Cosine(60, warmup=5),
    )
    assert found.stopped == "done"
    assert (found.step, found.epoch, len(found.losses)) == (60, 15, 60)
    assert found.epochs[-1].validated["right"] > 0.9
    assert found.epochs[-1].loss < 0.5 * found.epochs[0].loss
    assert not given["w"].any()
    assert no_thread_is_left()
    shapes = {s.what for s in found.timeline.spans}
    assert shapes == {"load", "wait", "compile", "run", "validate"}


def test_nothing_is_read_compiled_or_made_after_the_first_steps() -> None:
    counts: list[Any] = []

    def told(fitted: Fitted) -> None:
        counts.append(explorer.counters.snapshot())

    explorer.fit(loss, params(), [(X, Y)] * 100, SGD(0.1, momentum=0.9), progress=told)
    did = counts[-1] - counts[1]
    assert (did.host_reads, did.kernel_compiles, did.pass_runs) == (0, 0, 0)
    assert did.arrays_made == 98  # the losses


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [None, LossScale(interval=3)])
def test_the_ordinary_form_reads_once_a_step_and_comes_to_the_same(scale: LossScale | None) -> None:
    def data() -> Iterator[Any]:
        for n in range(12):
            x = X[:32].copy()
            x[0, 0] = np.inf if n in (0, 5, 6) else x[0, 0]
            yield x, Y[:32]

    both = []
    for sync_free in (True, False):
        before = explorer.counters.host_reads
        found = explorer.fit(
            loss, params(), list(data()), Adam(0.05), scale=scale, sync_free=sync_free
        )
        reads = explorer.counters.host_reads - before
        assert reads == (0 if sync_free else 12)
        assert found.skipped == 3
        both.append(found)
    for a, b in zip(both[0].params.values(), both[1].params.values(), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    if scale:
        assert both[0].state["scale"]["scale"] == both[1].state["scale"]["scale"]


def with_noise(p: Any, x: Any, y: Any, key: Any) -> Any:
    return loss(p, dropout(x, 0.25, key), y)


@pytest.mark.few(1)
@pytest.mark.parametrize("end", [3, 4, 9])
def test_a_run_goes_on_from_its_file_to_the_bit(tmp_path: Path, end: int) -> None:
    options = {"epochs": 4, "seed": 7, "schedule": Cosine(16), "validate": [(X, Y)]}

    def checked(p: Any, x: Any, y: Any, key: Any = np.array([0, 0])) -> Any:
        return with_noise(p, x, y, key)

    whole = explorer.fit(checked, params(), shuffled, Adam(0.05), **options)
    path, seen = tmp_path / "run.safetensors", list[int]()
    stopped = explorer.fit(
        checked,
        params(),
        shuffled,
        Adam(0.05),
        **options,
        checkpoint=path,
        cancelled=lambda: len(seen) >= end,
        progress=lambda f: seen.append(f.step),
    )
    assert stopped.stopped == "cancelled" and stopped.step == end
    again = explorer.fit(checked, params(), shuffled, Adam(0.05), **options, checkpoint=path)
    assert again.losses == whole.losses
    assert [e.validated for e in again.epochs] == [e.validated for e in whole.epochs]
    for a, b in zip(whole.params.values(), again.params.values(), strict=True):
        np.testing.assert_array_equal(a, b)
    done = explorer.fit(checked, params(), shuffled, Adam(0.05), **options, checkpoint=path)
    assert done.losses == whole.losses


KILLED = """
import sys, numpy as np
from tests.training.test_fit import *
print("ready", flush=True)
found = explorer.fit(with_noise, params(), shuffled, Adam(0.05), epochs=40, seed=3,
                     checkpoint=sys.argv[1], every=1)
print(repr(found.losses), flush=True)
"""


@pytest.mark.exhaustive
def test_a_run_that_is_killed_goes_on_to_the_same_losses(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = explorer.fit(with_noise, params(), shuffled, Adam(0.05), epochs=40, seed=3)
    for wait in (0.0, 0.02, 0.1):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    last = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=True
    )
    assert last.stdout.splitlines()[-1] == repr(whole.losses)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == [path.name]


def test_files_that_are_no_checkpoint_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    explorer.fit(loss, params(), [(X, Y)], checkpoint=path)
    whole = path.read_bytes()
    for broken in (b"", b"{}", whole[:-3], whole[:40], b"\xff" * 64, os.urandom(200)):
        path.write_bytes(broken)
        with pytest.raises(BadCheckpoint, match="checkpoint"):
            explorer.fit(loss, params(), [(X, Y)], checkpoint=path)
    path.write_bytes(whole)
    other = {"w": np.zeros((8, 4), np.float32), "b": np.zeros(4, np.float32)}
    with pytest.raises(BadCheckpoint, match=r"params.w is float32\[8, 3\]"):
        explorer.fit(loss, other, [(X, Y)], checkpoint=path)
    for optimizer in (AdamW(), SGD(0.1), Adam(amsgrad=True)):
        with pytest.raises(BadCheckpoint, match=r"no state|run by Adam, and this one"):
            explorer.fit(loss, params(), [(X, Y)], optimizer, checkpoint=path)
    assert path.read_bytes() == whole
    explorer.fit(loss, params(), [(X, Y)], Adam(amsgrad=True), checkpoint=path, resume=False)
    with pytest.raises(BadCheckpoint, match=r"holds state\.optimizer\.largest\.b, which this run"):
        explorer.fit(loss, params(), [(X, Y)], checkpoint=path)


def test_what_a_batch_raises_reaches_the_caller_and_no_thread_is_left() -> None:
    def data() -> Iterator[Any]:
        yield X, Y
        yield X, Y
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone") as caught:
        explorer.fit(loss, params(), data())
    assert any(entry.name == "data" for entry in caught.traceback)
    assert no_thread_is_left()


def test_an_early_end_leaves_no_thread_and_no_batch_beyond_those_ahead() -> None:
    made = []

    def data() -> Iterator[Any]:
        for n in range(1000):
            made.append(n)
            yield X, Y

    found = explorer.fit(loss, params(), data(), ahead=3, cancelled=lambda: True)
    assert found.stopped == "cancelled" and found.step == 1
    assert len(made) <= 1 + 3 + 2
    assert no_thread_is_left()


def test_a_run_ends_when_it_gets_no_better() -> None:
    found = explorer.fit(
        loss, params(), [(X, Y)], SGD(0.0), epochs=50, validate=[(X, Y)], patience=2
    )
    assert found.stopped == "no better" and found.epoch == 3


def test_batches_are_made_while_steps_run() -> None:
    """Sleeps of known length: nearly all of the shorter hide behind the longer."""

    def data() -> Iterator[Any]:
        for _ in range(30):
            time.sleep(0.02)
            yield X, Y

    timeline = Timeline()
    with Prefetcher(data, 2, timeline) as source:
        for _ in source:
            with timeline.span("main", "run", 0):
                time.sleep(0.02)
    assert timeline.overlap >= 0.9
    assert timeline.busy("wait") < 0.3 * timeline.busy("run")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epochs": 0}, "epochs must be an integer of at least 1"),
        ({"ahead": 1.5}, "ahead must be an integer"),
        ({"patience": 2}, "need batches to `validate` with"),
        ({"metrics": {"right": right}}, "need batches"),
    ],
)
def test_what_cannot_be_asked_for_is_said_before_anything_runs(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadOption, match=says):
        explorer.fit(loss, params(), [(X, Y)], **options)


def test_no_data_is_no_run() -> None:
    with pytest.raises(BadOption, match="no batch in epoch 0"):
        explorer.fit(loss, params(), [])
    with pytest.raises(BadOption, match="no batch in epoch 1"):
        explorer.fit(loss, params(), iter([(X, Y)]), epochs=2)
    with pytest.raises(BadOption, match="no parameter"):
        explorer.fit(loss, {}, [(X, Y)])


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(DtypeError, match="training takes real arrays"):
        explorer.fit(loss, {"w": W.astype("complex64"), "b": W[0]}, [(X, Y)])


def test_threads_of_the_program_change_no_loss() -> None:
    found = [
        explorer.fit(
            loss,
            params(),
            shuffled,
            epochs=3,
            ahead=ahead,
            options=explorer.Options(rammer=RammerOptions(threads=threads)),
        ).losses
        for threads, ahead in ((1, 1), (1, 4), (2, 2))
    ]
    assert found[0] == found[1] == found[2]


def test_parts_of_files_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "a[1].safetensors"
    old, new = (tmp_path / f".{path.name}.{n}.part" for n in ("old", "new"))
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    explorer.fit(loss, params(), [(X, Y)], checkpoint=path)
    assert path.exists() and new.exists() and not old.exists()
