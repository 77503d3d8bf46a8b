"""Kernels compiled in several processes at once: LLVM takes one thread of a process at a time.

This process compiles too, the longest sources first, and alone keeps what comes out. A helper is a
fresh interpreter that is given source text and gives back object code, as length-prefixed bytes;
one that does not start, dies or answers nonsense costs nothing but its share of the work.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import IO, Self

from explorer.codegen.cpu.object.object_code import MachineCode, ObjectCode, compiled, keep
from explorer.codegen.cpu.print import DECORATOR, HEADER
from explorer.devices.target import Target
from explorer.errors import KernelCompileError
from explorer.garbage import collect_young, rare_collections

BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from explorer.codegen.cpu.object.compile_processes import serve; serve()"
)
READY = b"ready"
THREAD = "compile helper"
LENGTH = struct.Struct("<Q")
MOST_BYTES = 1 << 28  # of a message; chosen


@dataclass(frozen=True, slots=True)
class Job:
    """A source to compile, with the key of its content and the name that an error gives it."""

    key: str
    source: str
    name: str
    target: Target


@dataclass(frozen=True, slots=True)
class _Answer:
    """What became of a job: object code, or the sentence that says why there is none."""

    job: Job
    code: ObjectCode | None
    seconds: float
    problem: str = ""


class Helpers:
    """Processes that help with one compilation. They may be started before it is known what there
    is to compile, to be ready then; afterwards they are gone.
    """

    def __init__(self, count: int = 0) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.grow(count)

    def grow(self, count: int) -> None:
        """After: there are at least `count` where they could be started."""
        for _ in range(count - len(self.processes)):
            process = _start()
            if process is None:
                return
            self.processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """After: no process is left, whatever it was doing."""
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait()
            for stream in (p.stdin, p.stdout):
                assert stream is not None
                with suppress(OSError):  # what was on its way to a process that is gone
                    stream.close()
        self.processes = []


def compile_jobs(
    jobs: Sequence[Job], helpers: Helpers, told: Callable[[Job, MachineCode], None]
) -> None:
    """Compile and keep every job, here and by the helpers, which are gone then; `told` of each as
    it is done.

    An exception of `told` stops all of it. Raises KernelCompileError with the job's name.
    """
    todo = deque(sorted(jobs, key=lambda j: len(j.source)))
    with _Team(todo, helpers) as team:
        for answer in team.answers(len(jobs)):
            if answer.code is None:
                name = answer.job.name
                raise KernelCompileError(f"{name}: {answer.problem}", where=name)
            told(answer.job, keep(answer.code, answer.seconds))


class _Team:
    """This process and its helpers at work; each helper has a thread here that waits for its
    answers.
    """

    def __init__(self, todo: deque[Job], helpers: Helpers) -> None:
        self.todo = todo
        self.done: SimpleQueue[_Answer | None] = SimpleQueue()  # None: a helper has gone
        self.helpers = helpers
        self.threads = [
            threading.Thread(target=self._ask, args=(p,), name=THREAD, daemon=True)
            for p in helpers.processes
        ]

    def __enter__(self) -> _Team:
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.todo.clear()
        for p in self.helpers.processes:
            p.kill()  # what waits for an answer finds out
        for t in self.threads:
            t.join()
        self.helpers.close()

    def answers(self, count: int) -> Iterator[_Answer]:
        """As many answers as there are jobs, from here and from the helpers."""
        while count:
            answer = self._next()
            if answer is not None:
                count -= 1
                yield answer

    def _next(self) -> _Answer | None:
        if not self.done.empty():
            return self.done.get()
        job = self._take()
        return self.done.get() if job is None else _answer(job)

    def _take(self) -> Job | None:
        try:
            return self.todo.pop()  # the longest
        except IndexError:
            return None

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        """Give a helper one job after the other; what it does not answer is done by another."""
        job: Job | None = None
        try:
            assert process.stdin is not None and process.stdout is not None
            if _receive(process.stdout) == READY:
                while (job := self._take()) is not None:
                    _send(process.stdin, json.dumps(asdict(job)).encode())
                    self.done.put(_read_answer(process.stdout, job))
                    job = None
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            if job is not None:
                self.todo.append(job)
        self.done.put(None)


def _start() -> subprocess.Popen[bytes] | None:
    """A helper that loads what it needs; None where there is no interpreter to start."""
    if not sys.executable:
        return None
    words = [sys.executable, "-P", "-c", BOOT, json.dumps(sys.path)]
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt is for this process, which then ends its helpers
        )
    except OSError:
        return None


def _answer(job: Job) -> _Answer:
    begin = time.perf_counter()
    try:
        code = compiled(job.key, job.source, job.target)
    except KernelCompileError as error:
        return _Answer(job, None, time.perf_counter() - begin, error.sentence)
    finally:
        collect_young()
    return _Answer(job, code, time.perf_counter() - begin)


def _read_answer(stream: IO[bytes], job: Job) -> _Answer:
    """Raises ValueError or KeyError where it is no answer to the job."""
    head = json.loads(_receive(stream))
    code = _receive(stream)
    if head["key"] != job.key:
        raise ValueError("an answer to another job")
    seconds, problem = float(head["seconds"]), str(head["problem"])
    if problem:
        return _Answer(job, None, seconds, problem)
    return _Answer(job, ObjectCode(job.key, str(head["symbol"]), code), seconds)


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(LENGTH.pack(len(message)) + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    """A message; EOFError where the other side is gone, ValueError where it is too long."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    if length > MOST_BYTES:
        raise ValueError("a message that long is none of ours")
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message


def serve() -> None:
    """What a helper does: compile what it is asked for, until nobody asks any more.

    It says that it is ready when it has compiled a kernel that does nothing: all that the others
    need is loaded then.
    """
    given, taken = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what anything prints is no answer
    nothing = "\n".join(
        (*HEADER, "", DECORATOR, "def kernel(first, last, args):", "    wide()", "")
    )
    _answer(Job("nothing", nothing, "", Target()))
    _send(taken, READY)
    with rare_collections(), suppress(EOFError, BrokenPipeError):
        while True:
            asked = json.loads(_receive(given))
            about = asked["target"]
            target = Target(str(about["processor"]), tuple(map(str, about["features"])))
            found = _answer(Job(str(asked["key"]), str(asked["source"]), "", target))
            symbol, code = (found.code.symbol, found.code.code) if found.code else ("", b"")
            about = {"key": found.job.key, "seconds": found.seconds, "symbol": symbol}
            _send(taken, json.dumps({**about, "problem": found.problem}).encode())
            _send(taken, code)
