"""Sandbox for untrusted code: a helper process with limits of time and memory.

Work that never ends, crashes or takes all memory ends in a sentence, and this process is
unaffected. The helper is a fork, so it sees what this process sees, functions of a notebook's cell
included, and nothing has to be serialised. It answers with text. Errors of user code are located by
line. Its limits are hard ones, and its session ends with it. It may read and write what this
process may: `sandbox_jail` confines code of strangers.
"""

from __future__ import annotations

import ctypes
import faulthandler
import inspect
import json
import linecache
import math
import os
import re
import select
import signal
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from explorer.process.forking import ForkLock

CAN_FORK = sys.platform == "linux"  # elsewhere a fork of a process with threads is no safe thing
WALL_TIMES = 6  # a helper may wait so many times the seconds that it may compute; chosen
LOOK_SECONDS = 0.02  # between two looks at a helper; chosen
GRACE_SECONDS = 1.0  # for a helper to say where it was when its time was over; chosen
MIB = 1 << 20
PR_SET_PDEATHSIG = 1
OURS = tuple(str(Path(__file__).parents[2] / room) + "/" for room in ("explorer", "widgets"))
INSTALLED = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")})
CELL = re.compile(r"ipykernel_\d+/|^<ipython-input|^<cell")
LONGEST_LINE = 60  # characters; chosen
DEEPEST = 1000  # frames looked at: a recursion without end has more; chosen

_starting = ForkLock()
_inside = False  # whether this process is a helper: it starts no other


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a helper: seconds of computing, and MiB beyond what this process has.

    `wall_seconds` bound computing and waiting together; 0 stands for six times `seconds`.
    """

    seconds: float = 20.0
    mib: int = 2048
    wall_seconds: float = 0.0

    @property
    def most_wall_seconds(self) -> float:
        """The seconds of computing and waiting."""
        return self.wall_seconds or self.seconds * WALL_TIMES


class Ended(Exception):
    """Work that did not finish.

    `why` is the rest of a sentence, "took more than …"; `reported` is what it had reported by then.
    """

    def __init__(self, why: str, reported: tuple[str, ...] = ()) -> None:
        """Create the error from its reason and the texts reported so far."""
        super().__init__(why)
        self.why, self.reported = why, reported


def is_helper() -> bool:
    """Return True if this process is a helper, or if helpers cannot be started here."""
    return _inside or not CAN_FORK


def become_helper() -> None:
    """Record that this process is a helper: it starts no other."""
    global _inside
    _inside = True


def in_helper(work: Callable[[Callable[[str], None]], None], limits: Limits) -> tuple[str, ...]:
    """Run `work` in a helper process and return the texts that it reports.

    It is called with the function that reports; it also reports its own failures.

    Raises:
        Ended: It took too much time or memory, or its process ended before the work did.
    """
    with _starting:  # or another helper would hold this one's pipe open
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # other threads: explorer.process.forking
            child = os.fork()
        if child == 0:
            os.close(reading)
            _work(work, limits, writing)
        os.close(writing)
    ended = False
    try:
        text, slow = _read(reading, child, limits)
        if slow:
            os.kill(child, signal.SIGKILL)
        status = _end_session(child)
        ended = True
    finally:
        os.close(reading)
        if not ended:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                _end_session(child)
    return _answer(text, status, slow, limits)


def _end_session(child: int) -> int:
    """Wait for a helper, kill the processes that it left in its group, and return its status."""
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its number stays taken
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _read(reading: int, child: int, limits: Limits) -> tuple[str, bool]:
    """Return what the helper wrote, and True if it outlasted even its own watchdog.

    That happens in a C function that does not release the interpreter lock.
    """
    parts: list[bytes] = []
    has_ended = False
    end = time.monotonic() + limits.most_wall_seconds + 2 * GRACE_SECONDS
    while time.monotonic() < end and _computed_seconds(child) < limits.seconds + GRACE_SECONDS:
        if not select.select([reading], [], [], LOOK_SECONDS)[0]:
            if has_ended:  # a process that the helper left holds the pipe open
                break
            has_ended = _has_ended(child)
            continue
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode("utf-8", "replace"), False
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace"), not _has_ended(child)


def _has_ended(child: int) -> bool:
    """Return True if a child process has ended and nobody waited for it yet."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _computed_seconds(child: int) -> float:
    """Return the CPU seconds of a child process."""
    with open(f"/proc/{child}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _answer(text: str, status: int, slow: bool, limits: Limits) -> tuple[str, ...]:
    """Return the reported texts, or raise Ended with the reason."""
    reported, why, is_done = [], "", False
    for line in text.splitlines():
        with suppress(ValueError):  # cut short where the process died
            kind, text_of_message = json.loads(line)
            if kind == "told":
                reported.append(text_of_message)
            elif kind == "done":
                is_done = True
            else:
                why = text_of_message
    if not why and slow:
        why = f"took more than {limits.seconds:g} s"
    if not why and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = f"crashed its process ({signal.Signals(number).name})"
    if not why and not is_done:  # also with code 0: `os._exit(0)` in the work
        why = f"ended its process with {os.waitstatus_to_exitcode(status)}"
    if why:
        raise Ended(why, tuple(reported))
    return tuple(reported)


def _work(work: Callable[[Callable[[str], None]], None], limits: Limits, writing: int) -> NoReturn:
    """Run the work in the child, then end without exit handlers."""
    become_helper()
    code = 1
    try:
        os.setsid()
        end_with_parent()
        silence()
        say = _Messages(writing)
        set_hard_limits(limits)
        watch_time(limits, say)
        try:
            work(lambda text: say("told", text))
            say("done", "")
        except MemoryError:
            say("ended", f"took more than {limits.mib:,} MiB of memory")
        code = 0
    finally:
        os._exit(code)


class _Messages:
    """Writer of messages to the parent, one JSON line each."""

    def __init__(self, writing: int) -> None:
        """Write to an open descriptor."""
        self.writing, self.lock = writing, threading.Lock()

    def __call__(self, kind: str, text: str) -> None:
        """Send a message."""
        data = (json.dumps((kind, text)) + "\n").encode()
        with self.lock:
            while data:
                data = data[os.write(self.writing, data) :]


def silence() -> None:
    """Disable output and debuggers, which must not use the parent's terminal."""
    faulthandler.disable()
    sys.breakpointhook = lambda *_, **__: None
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as the process
    for number in (signal.SIGINT, signal.SIGTERM):
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.SIG_DFL)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_hard_limits(limits: Limits) -> None:
    """Limit the address space and the seconds of this process, which cannot raise them again."""
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    seconds = math.ceil(time.process_time() + limits.seconds + 2 * GRACE_SECONDS)
    for kind, most in (
        (resource.RLIMIT_AS, now + limits.mib * MIB),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def watch_time(limits: Limits, say: Callable[[str, str], None]) -> None:
    """Start a thread that ends the process when its time is over and reports where it was."""
    working = threading.get_ident()
    start, end = time.process_time(), time.monotonic() + limits.most_wall_seconds

    def watch() -> None:
        """Wait for the end of the time."""
        while time.process_time() - start < limits.seconds and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        is_waiting = time.process_time() - start < limits.seconds and limits.wall_seconds
        seconds = limits.wall_seconds if is_waiting else limits.seconds
        say("ended", f"took more than {seconds:g} s{now_at(working)}")
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def at_line(problem: BaseException) -> str:
    """Return the innermost line of user code of an error, to end a sentence with, or "".

    An example is ", at line 3 of the cell (`x = 1 / 0`)".
    """
    line_text = ""
    if isinstance(problem, SyntaxError) and problem.lineno:
        return _at(str(problem.filename), problem.lineno)
    for code_file, line in _lines(problem.__traceback__):
        if _is_own(code_file):
            line_text = _at(code_file, line)
    return line_text


def at_definition(function: object) -> str:
    """Return the line at which a function of user code is defined, likewise, or ""."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None or not _is_own(code.co_filename):
        return ""
    return _at(code.co_filename, code.co_firstlineno)


def now_at(thread: int) -> str:
    """Return the innermost line of user code that a thread executes, likewise."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        if _is_own(frame.f_code.co_filename):
            return _at(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def _lines(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of a traceback's frames."""
    for _ in range(DEEPEST):
        if traceback is None:
            return
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def _is_own(file: str) -> bool:
    """Return True if a file is user code: neither this package nor installed."""
    if file.startswith(OURS) or file.startswith(INSTALLED):
        return False
    return CELL.search(file) is not None or not file.startswith("<")


def _at(file: str, line: int) -> str:
    """Format a line of a file as the end of a sentence."""
    text = " ".join(linecache.getline(file, line).split())
    text = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    where = "the cell" if CELL.search(file) else Path(file).name
    return f", at line {line} of {where}" + (f" (`{text}`)" if text else "")
