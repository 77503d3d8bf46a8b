"""Parallel compilation of kernels in several processes.

LLVM uses one thread of a process at a time. This process compiles too, the longest sources first,
and alone caches the results. A helper is a fresh interpreter that receives source text and returns
object code, as length-prefixed bytes. A helper that does not start, dies or sends an invalid answer
costs only its share of the work. The number of helpers follows from the work, the idle cores and
the memory.
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

from explorer import cache
from explorer.codegen.cpu.object_code import MachineCode, ObjectCode, cache_object, compiled
from explorer.devices.isa import InstructionSet
from explorer.errors import KernelCompileError
from explorer.process.allowance import free_bytes, idle_cores
from explorer.process.garbage import collect_young, rare_collections

BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from explorer.codegen.cpu.compile_processes import serve; serve()"
)
READY = b"ready"
THREAD = "compile helper"
LENGTH = struct.Struct("<Q")
MOST_BYTES = 1 << 28  # of a message; chosen
OPERATORS_A_KERNEL = 4  # of a model in a kernel, about; chosen
KERNELS_A_HELPER = 8  # it starts in half a second, the time of six kernels: measured once
# Memory of a helper, and a third more: `python -m tests.benchmarks.compile_time` prints the total.
HELPER_BYTES = 192 << 20
KEPT_FREE_BYTES = 512 << 20  # for other processes; chosen
MOST_HELPERS = 7  # chosen


@dataclass(frozen=True, slots=True)
class Job:
    """A source to compile, with its content key and the name for errors."""

    key: str
    source: str
    name: str
    target: InstructionSet


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of a job: object code, or a sentence that says why there is none."""

    job: Job
    code: ObjectCode | None
    seconds: float
    problem: str = ""


class Helpers:
    """Processes that help with one compilation.

    They may be started before the sources are known, to be ready then. They end with the
    compilation.
    """

    def __init__(self, count: int = 0) -> None:
        """Start `count` processes."""
        self.processes: list[subprocess.Popen[bytes]] = []
        self.grow(count)

    def grow(self, count: int) -> None:
        """Start processes until there are `count`, or until one cannot be started."""
        for _ in range(count - len(self.processes)):
            process = _start_helper()
            if process is None:
                return
            self.processes.append(process)

    def __enter__(self) -> Self:
        """Return the helpers."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all processes."""
        self.close()

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait()
            for stream in (p.stdin, p.stdout):
                assert stream is not None
                with suppress(OSError):  # unsent data for a process that is gone
                    stream.close()
        self.processes = []


def compile_jobs(
    jobs: Sequence[Job], helpers: Helpers, on_done: Callable[[Job, MachineCode], None]
) -> None:
    """Compile and cache every job, here and in the helpers, which end then.

    `on_done` is called for each finished job; an exception of it stops the compilation. Raises
    KernelCompileError with the job's name.
    """
    todo = deque(sorted(jobs, key=lambda j: len(j.source)))
    with _Team(todo, helpers) as team:
        for answer in team.answers(len(jobs)):
            if answer.code is None:
                name = answer.job.name
                raise KernelCompileError(f"{name}: {answer.problem}", where=name)
            on_done(answer.job, cache_object(answer.code, answer.seconds))


class _Team:
    """This process and its helpers at work; a thread for each helper waits for its answers."""

    def __init__(self, todo: deque[Job], helpers: Helpers) -> None:
        """Create the threads of the helpers."""
        self.todo = todo
        self.done: SimpleQueue[_Answer | None] = SimpleQueue()  # None: a helper has ended
        self.helpers = helpers
        self.threads = [
            threading.Thread(target=self._feed, args=(p,), name=THREAD, daemon=True)
            for p in helpers.processes
        ]

    def __enter__(self) -> _Team:
        """Start the threads."""
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """End the helpers and their threads."""
        self.todo.clear()
        for p in self.helpers.processes:
            p.kill()  # threads that wait for an answer see the end
        for t in self.threads:
            t.join()
        self.helpers.close()

    def answers(self, count: int) -> Iterator[_Answer]:
        """Yield the answers of all jobs, from here and from the helpers."""
        while count:
            answer = self._next()
            if answer is not None:
                count -= 1
                yield answer

    def _next(self) -> _Answer | None:
        if not self.done.empty():
            return self.done.get()
        job = self._take()
        return self.done.get() if job is None else _compile_job(job)

    def _take(self) -> Job | None:
        try:
            return self.todo.pop()  # the longest
        except IndexError:
            return None

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Send jobs to a helper, one after the other; an unanswered job goes back to the others."""
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


def _start_helper() -> subprocess.Popen[bytes] | None:
    """Start a helper that imports its modules; None if there is no interpreter to start."""
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


def _compile_job(job: Job) -> _Answer:
    """Compile a job in this process."""
    begin = time.perf_counter()
    try:
        code = compiled(job.key, job.source, job.target)
    except KernelCompileError as error:
        return _Answer(job, None, time.perf_counter() - begin, error.sentence)
    finally:
        collect_young()
    return _Answer(job, code, time.perf_counter() - begin)


def _read_answer(stream: IO[bytes], job: Job) -> _Answer:
    """Read the answer to a job; raises ValueError or KeyError if it is none."""
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
    """Read a message; EOFError if the other process is gone, ValueError if it is too long."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    if length > MOST_BYTES:
        raise ValueError("the message is longer than the protocol allows")
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message


def serve() -> None:
    """Compile the requested sources of a helper until its input ends.

    It reports ready after it compiled an empty kernel: all that the others need is imported then.
    """
    from explorer.codegen.cpu.print import DECORATOR, HEADER  # for a helper alone

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # keep prints out of the answers
    nothing = "\n".join(
        (*HEADER, "", DECORATOR, "def kernel(first, last, args):", "    wide()", "")
    )
    _compile_job(Job("nothing", nothing, "", InstructionSet()))
    _send(answers, READY)
    with rare_collections(), suppress(EOFError, BrokenPipeError):
        while True:
            request = json.loads(_receive(requests))
            about = request["target"]
            target = InstructionSet(str(about["processor"]), tuple(map(str, about["features"])))
            answer = _compile_job(Job(str(request["key"]), str(request["source"]), "", target))
            symbol, code = (answer.code.symbol, answer.code.code) if answer.code else ("", b"")
            about = {"key": answer.job.key, "seconds": answer.seconds, "symbol": symbol}
            _send(answers, json.dumps({**about, "problem": answer.problem}).encode())
            _send(answers, code)


class HelpersAhead(Helpers):
    """Helpers for a model that was never compiled here; they start while its passes run.

    A model that was compiled before, by its key, is expected to find its kernels in the cache.
    """

    def __init__(self, model: str, operators: int) -> None:
        """Start helpers for a model of `operators` operators, unless it was compiled before."""
        super().__init__()
        self.key = cache.content_key("compiled before", model)
        expected = helpers_for(operators // OPERATORS_A_KERNEL)
        self.is_new = expected > 0 and cache.get(self.key) is None
        if self.is_new:
            self.grow(expected)

    def remember(self) -> None:
        """Mark the model as compiled."""
        if self.is_new:
            cache.put(self.key, b"")


def helpers_for(kernels: int) -> int:
    """Return how many processes should help to compile that many kernels.

    There are none on one core, nor while others keep all cores busy: to start one is the work of
    several kernels.
    """
    if kernels < 2 * KERNELS_A_HELPER:
        return 0
    by_memory = (free_bytes() - KEPT_FREE_BYTES) // HELPER_BYTES
    return max(0, min(idle_cores(), kernels // KERNELS_A_HELPER - 1, by_memory, MOST_HELPERS))
