"""Peer runtimes in processes of their own: stopped between turns, ended with the race."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import PeerFault
from explorer.frontends.model import Model
from explorer.ir.dims import symbol
from explorer.measure.turns import take_turns
from explorer.tuning.peers.peer import Skipped
from explorer.tuning.peers.peer_process import PeerProcess
from explorer.tuning.peers.runtimes import prepare
from tests.tuning.models import mlp

X = {"x": np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from explorer.tuning.peers.peer_process import PeerProcess
from tests.tuning.models import mlp
peer = PeerProcess("onnxruntime", mlp(Path(sys.argv[1])), {"x": np.ones((3, 24), np.float32)}, 1)
print(peer.process_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return mlp(tmp_path_factory.mktemp("apart"))


@pytest.fixture(scope="module")
def peer(model: Model) -> Iterator[PeerProcess]:
    pytest.importorskip("onnxruntime")
    found = PeerProcess("onnxruntime", model, X, 2)
    yield found
    found.close()


def state(process: int) -> str:
    """Return the letter of a process's state, "" where it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def awaited(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.002)
    return true()


@LINUX
def test_a_process_is_stopped_whenever_it_has_no_turn(peer: PeerProcess) -> None:
    assert awaited(lambda: state(peer.process_id) == "T")
    peer()
    assert awaited(lambda: state(peer.process_id) == "T")
    take_turns((lambda: None, peer), 0.0, time.perf_counter_ns)
    assert awaited(lambda: state(peer.process_id) == "T")


def test_it_gives_the_outputs_that_it_gives_in_here(model: Model, peer: PeerProcess) -> None:
    here = prepare("onnxruntime", model, X, 2)
    for name, array in here.run().items():
        np.testing.assert_array_equal(peer()[name], array)
    assert peer.version == here.version


def test_its_turns_are_timed_and_watched_there(peer: PeerProcess) -> None:
    ours, theirs = take_turns((lambda: None, peer), 0.0, time.perf_counter_ns)
    assert len(theirs.turns) == len(theirs.disturbances) >= 8
    assert all(len(turn) == theirs.samples for turn in theirs.turns)
    assert min(min(turn) for turn in theirs.turns) > 0 and not ours.disturbances


def test_a_process_that_died_is_named(model: Model) -> None:
    pytest.importorskip("onnxruntime")
    dying = PeerProcess("onnxruntime", model, X, 1)
    os.kill(dying.process_id, signal.SIGKILL)
    with pytest.raises(PeerFault, match="the process of onnxruntime ended by SIGKILL"):
        dying()
    dying.close()


@LINUX
def test_a_closed_process_is_gone(model: Model) -> None:
    pytest.importorskip("onnxruntime")
    closed = PeerProcess("onnxruntime", model, X, 1)
    closed.close()
    assert state(closed.process_id) == ""


@LINUX
def test_it_ends_where_the_racing_process_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    process = int(done.stdout)
    assert awaited(lambda: state(process) in ("", "Z"))


def test_a_model_that_cannot_be_written_is_a_reason() -> None:
    pytest.importorskip("onnxruntime")
    unwritable: Any = SimpleNamespace(work=lambda: None)
    with pytest.raises(Skipped, match="cannot be given to another process"):
        PeerProcess("onnxruntime", unwritable, X, 1)


def test_a_model_that_was_compiled_and_run_is_given_to_a_process(tmp_path: Path) -> None:
    model = mlp(tmp_path)
    c = explorer.compile(model)
    c.run(X)
    assert model.program.env.hint(symbol("batch")) == c.hint["batch"]  # what it caches stays here
    given = pickle.loads(pickle.dumps(model))
    assert given.program == model.program and given.digest == model.digest


def test_a_refused_model_is_a_reason(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    with pytest.raises(Skipped, match="onnxruntime cannot run it"):
        PeerProcess("onnxruntime", replace(model, path=str(broken)), X, 1)
