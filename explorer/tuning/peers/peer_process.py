"""Other runtimes in separate processes, each stopped outside of its turns.

Two runtimes in one process disturb each other: their threads spin, share an allocator and replace
each other's settings. A process is stopped by SIGSTOP between turns, so that its threads occupy no
core. It ends with its race, on Linux also if the racing process is killed.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from explorer.errors import IronworksError, PeerFault
from explorer.frontends.model import Model
from explorer.measure.turns import (
    Disturbance,
    Elsewhere,
    Series,
    Watch,
    take_turn,
    wait_until_quiet,
    warmed,
)
from explorer.tuning.peers.peer import Inputs, Outputs, Peer, Skipped
from explorer.tuning.peers.runtimes import installed, prepare, prepare_peers

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
END_SECONDS = 5.0  # for a process to end by itself, before it is killed; chosen
READY, SKIPPED, FAILED = "ready", "skipped", "failed"  # kinds of an answer


class PeerProcess(Elsewhere):
    """A runtime that holds a model in a separate process; a call returns the outputs."""

    def __init__(self, name: str, model: Model, inputs: Inputs, threads: int) -> None:
        """Start the process; Skipped if the runtime is missing or refuses the model."""
        installed(name)
        self.name = name
        try:
            request = pickle.dumps((name, model, dict(inputs), threads))
        except Exception as problem:  # a model may hold objects that cannot be pickled
            raise Skipped(f"the model cannot be given to another process: {problem}") from problem
        self._connection, theirs = Pipe()
        path = os.pathsep.join(filter(None, sys.path))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # our stdout is the output of a command
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C reaches the racing process, which ends this one
            )
        try:
            self.version: str = self._ask(request)
        except PeerFault as problem:
            self.close()
            raise Skipped(str(problem)) from problem
        except BaseException:
            self.close()
            raise

    @property
    def process_id(self) -> int:
        """The operating system's process id."""
        return self._process.pid

    def __call__(self) -> Outputs:
        """Return the outputs of a run."""
        outputs: Outputs = self._ask(pickle.dumps(("answer", None)))
        return outputs

    def warm_up(self, patience_ns: int) -> Series:
        """Return the series of the runtime, warm in its process."""
        calls, samples, settles, length = self._ask(pickle.dumps(("warm up", patience_ns)))
        return Series(self, calls, samples, settles, length)

    def turn(self) -> tuple[list[float], Disturbance]:
        """Take one turn there, after the threads of both processes are idle."""
        wait_until_quiet()
        times, disturbance = self._ask(pickle.dumps(("turn", None)))
        return times, disturbance

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: bytes) -> Any:
        """Resume the process, send it a request, wait for the answer and stop it."""
        self._process.send_signal(signal.SIGCONT)
        try:
            self._connection.send_bytes(request)
            kind, answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            code = self._process.wait()
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
            raise PeerFault(f"the process of {self.name} ended {how}", where=self.name) from None
        self._process.send_signal(signal.SIGSTOP)
        if kind == READY:
            return answer
        if kind == SKIPPED:
            raise Skipped(answer)
        if isinstance(answer, IronworksError):
            raise answer
        raise PeerFault(f"{self.name} failed while it ran: {answer}", where=self.name)


def prepare_apart(name: str, model: Model, inputs: Inputs, threads: int) -> Peer:
    """Return a runtime with the model loaded, in a separate process.

    Raises:
        Skipped: the runtime is missing or refuses the model.
    """
    process = PeerProcess(name, model, inputs, threads)
    return Peer(name, process.version, process, process.close)


def prepare_peers_apart(
    names: Iterable[str], model: Model, inputs: Inputs, threads: int, stack: ExitStack
) -> tuple[list[Peer], dict[str, str]]:
    """Load a model into the runtimes that can run it, in separate processes.

    Returns these runtimes and the reasons for the others. The stack closes them.
    """
    return prepare_peers(names, model, inputs, threads, stack, prepare_apart)


# In the runtime's process.


def serve(connection: Connection) -> None:
    """Load the model that is sent, then answer requests until the connection is closed."""
    with suppress(EOFError, OSError):
        name, model, inputs, threads = pickle.loads(connection.recv_bytes())
        try:
            peer = prepare(name, model, inputs, threads)
        except Skipped as reason:
            _answer(connection, SKIPPED, str(reason))
            return
        except IronworksError as problem:
            _answer(connection, FAILED, problem)
            return
        _answer(connection, READY, peer.version)
        del model
        _take_requests(connection, peer)


def _take_requests(connection: Connection, peer: Peer) -> None:
    watch, series = Watch(), None
    while True:
        wanted, value = pickle.loads(connection.recv_bytes())
        try:
            if wanted == "answer":
                answer: Any = dict(peer.run())
            elif wanted == "warm up":
                series = warmed(peer.run, value, perf_counter_ns)
                answer = series.calls, series.samples, series.settles, series.length
            else:
                assert series is not None, "a turn comes after a warm-up"
                take_turn(series, perf_counter_ns, watch)
                answer = series.turns.pop(), series.disturbances.pop()
        except Exception as problem:  # another runtime may raise anything
            first = next(iter(str(problem).splitlines()), "")
            _answer(connection, FAILED, first or type(problem).__name__)
            continue
        _answer(connection, READY, answer)


def _answer(connection: Connection, kind: str, answer: object) -> None:
    connection.send_bytes(pickle.dumps((kind, answer)))


def _die_with(parent: int) -> None:
    """Let the system kill this process when its parent ends, also while it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    _die_with(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
