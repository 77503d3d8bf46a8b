"""Work in a helper process, with a limit of time and one of memory: what never ends, crashes or
eats all memory there ends in a sentence, and this process is as it was.

The helper is a fork, so that it sees what this process sees, functions of a notebook's cell too,
and nothing has to be written down to get there. What comes back is text.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from explorer.forking import ForkLock
from explorer.sandbox.line import now_at

CAN_FORK = sys.platform == "linux"  # elsewhere a fork of a process with threads is no safe thing
WALL_TIMES = 6  # a helper may wait so many times the seconds that it may compute; chosen
LOOK_SECONDS = 0.02  # between two looks at a helper; chosen
GRACE_SECONDS = 1.0  # for a helper to say where it was when its time was over; chosen
MIB = 1 << 20

_starting = ForkLock()
_inside = False  # whether this process is a helper: it starts no other


@dataclass(frozen=True, slots=True)
class Limits:
    """What a helper may take: seconds of computing, and MiB more than this process has."""

    seconds: float = 20.0
    mib: int = 2048


class Ended(Exception):
    """Work that did not come to its end: `why` is the rest of a sentence, "took more than …";
    `told` what it had told by then.
    """

    def __init__(self, why: str, told: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why, self.told = why, told


def is_helper() -> bool:
    """Whether this process is a helper already, or none can be had here."""
    return _inside or not CAN_FORK


def in_helper(work: Callable[[Callable[[str], None]], None], limits: Limits) -> tuple[str, ...]:
    """What `work` tells, text by text, in a process of its own. It is called with the function
    that tells. What it raises is no concern of ours: it tells what it wants known.

    Raises Ended where it took too much time or memory, or its process died.
    """
    with _starting:  # or another helper would hold this one's pipe open
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads: explorer.forking
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
        _, status = os.waitpid(child, 0)
        ended = True
    finally:
        os.close(reading)
        if not ended:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    return _answer(text, status, slow, limits)


def _read(reading: int, child: int, limits: Limits) -> tuple[str, bool]:
    """What the helper wrote, and whether it outlasted even its own watch, as where it is in a
    function of C that lets no other thread of it go on.
    """
    parts: list[bytes] = []
    end = time.monotonic() + limits.seconds * WALL_TIMES + 2 * GRACE_SECONDS
    while time.monotonic() < end and _computed_seconds(child) < limits.seconds + GRACE_SECONDS:
        if not select.select([reading], [], [], LOOK_SECONDS)[0]:
            continue
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode("utf-8", "replace"), False
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace"), True


def _computed_seconds(child: int) -> float:
    with open(f"/proc/{child}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _answer(text: str, status: int, slow: bool, limits: Limits) -> tuple[str, ...]:
    told, why = [], ""
    for line in text.splitlines():
        with suppress(ValueError):  # cut short where the process died
            kind, said = json.loads(line)
            if kind == "told":
                told.append(said)
            else:
                why = said
    if not why and slow:
        why = f"took more than {limits.seconds:g} s"
    if not why and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = f"crashed its process ({signal.Signals(number).name})"
    if not why and os.waitstatus_to_exitcode(status):
        why = f"ended its process with {os.waitstatus_to_exitcode(status)}"
    if why:
        raise Ended(why, tuple(told))
    return tuple(told)


def _work(work: Callable[[Callable[[str], None]], None], limits: Limits, writing: int) -> NoReturn:
    """In the child: the work, then its end without anything that a process does at its end."""
    global _inside
    _inside = True
    code = 1
    try:
        _quiet(writing)
        say = _Saying(writing)
        _bound_memory(limits)
        _watch(limits, say)
        try:
            work(lambda text: say("told", text))
        except MemoryError:
            say("ended", f"took more than {limits.mib:,} MiB of memory")
        code = 0
    finally:
        os._exit(code)


class _Saying:
    def __init__(self, writing: int) -> None:
        self.writing, self.lock = writing, threading.Lock()

    def __call__(self, kind: str, text: str) -> None:
        data = (json.dumps((kind, text)) + "\n").encode()
        with self.lock:
            while data:
                data = data[os.write(self.writing, data) :]


def _quiet(writing: int) -> None:
    """Nothing is printed, no debugger waits for a terminal that is not its own."""
    faulthandler.disable()
    sys.breakpointhook = lambda *_, **__: None
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as the process
    for number in (signal.SIGINT, signal.SIGTERM):
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.SIG_DFL)


def _bound_memory(limits: Limits) -> None:
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = now + limits.mib * MIB
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _watch(limits: Limits, say: _Saying) -> None:
    """A thread that ends the process when its time is over, and says where it was."""
    working = threading.get_ident()
    start, end = time.process_time(), time.monotonic() + limits.seconds * WALL_TIMES

    def watch() -> None:
        while time.process_time() - start < limits.seconds and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        say("ended", f"took more than {limits.seconds:g} s{now_at(working)}")
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
