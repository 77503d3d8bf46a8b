"""What never ends, crashes or eats all memory ends in a sentence; this process is as it was."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

import explorer
from explorer.compiler.options import Options
from explorer.errors import BadOption, BadPass
from explorer.ir.program import Program
from explorer.passes import registry
from explorer.process import sandbox
from explorer.process.sandbox import Ended, Limits, in_helper

pytestmark = pytest.mark.skipif(not sandbox.CAN_FORK, reason="there is no fork here")
SMALL = Limits(seconds=0.3, mib=256)
LARGE = Limits(seconds=20.0, mib=256)
Tell = Callable[[str], None]


def endless() -> None:
    while True:
        pass


def waiting() -> None:
    time.sleep(1000)


def hungry() -> None:
    held = []
    while True:
        held.append(bytearray(1 << 24))


def crashing() -> None:
    ctypes.string_at(0)


def leaving() -> None:
    os._exit(3)


def leaving_as_if_done() -> None:
    os._exit(0)


def in_c() -> None:
    re.match(r"(a+)+$", "a" * 40 + "b")


WRONG = [
    (endless, r"took more than 0.3 s, at line \d+ of test_sandbox.py \(`(pass|while True:)`\)"),
    (waiting, r"took more than 0.3 s, at line \d+ of test_sandbox.py \(`time.sleep\(1000\)`\)"),
    (hungry, "took more than 256 MiB of memory"),
    (crashing, r"crashed its process \(SIGSEGV\)"),
    (leaving, "ended its process with 3"),
    (leaving_as_if_done, "ended its process with 0"),
    (in_c, "took more than 0.3 s"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("work", "why"), WRONG, ids=[w.__name__ for w, _ in WRONG])
def test_it_ends_and_says_why_and_what_it_told_before_is_kept(
    work: Callable[[], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def telling(tell: Tell) -> None:
        tell("begun")
        work()

    forked, fork = list[int](), os.fork

    def forking() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", forking)
    with pytest.raises(Ended, match=why) as found:
        in_helper(telling, LARGE if work is hungry else SMALL)
    assert found.value.reported == ("begun",)
    with pytest.raises(ChildProcessError):  # its process is not left behind
        os.waitpid(forked[0], os.WNOHANG)


def test_long_texts_come_whole_and_prints_go_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def telling(tell: Tell) -> None:
        print("not here")
        os.write(1, b"nor here")
        tell("x\n" * 100_000)
        tell("€")

    assert in_helper(telling, Limits()) == ("x\n" * 100_000, "€")
    assert capfd.readouterr() == ("", "")


@pytest.mark.exhaustive
def test_several_at_once_do_not_wait_for_each_other() -> None:
    found: list[str] = []

    def one() -> None:
        with pytest.raises(Ended) as ended:
            in_helper(lambda tell: endless(), SMALL)
        found.append(ended.value.why)

    threads = [Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        assert in_helper(lambda tell: tell("quick"), SMALL) == ("quick",)
    for thread in threads:
        thread.join(60)
    assert len(found) == 4


@pytest.mark.parametrize(
    ("work", "why"), WRONG[:1] + WRONG[2:6], ids=lambda v: getattr(v, "__name__", "")
)
def test_a_pass_that_does_so_is_a_sentence_and_the_next_compilation_is_as_before(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], None], why: str
) -> None:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())

    seconds = 0.3 if work is endless else 20.0

    @explorer.compiler_pass("broken", after="fuse (Welder)", seconds=seconds, mib=256)
    def broken(program: Program) -> Program:
        work()
        return program

    with pytest.raises(BadPass, match=f"the pass 'broken' {why}"):
        explorer.compile("tests/data/tiny_skip.onnx", until="rolled")
    explorer.forget_pass("broken")
    again = explorer.compile("tests/data/tiny_skip.onnx", until="rolled")
    assert again.program.kernel_calls


def test_a_pass_is_counted_once_in_this_process_and_prints_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []

    def counting(program: Program) -> Program:
        seen.append(program.name)
        print("seen")
        return program

    options = Options(passes=(("fuse (Welder)", counting),))
    explorer.compile("tests/data/tiny_skip.onnx", options=options, until="rolled")
    assert len(seen) == 1 and capsys.readouterr().out == "seen\n"


def test_an_error_names_the_line_of_the_cell_that_raised_it(tmp_path: Path) -> None:
    cell = tmp_path / "ipykernel_1" / "2.py"
    cell.parent.mkdir()
    cell.write_text("def mine(program):\n    size = 0\n    return 1 / size\n")
    space: dict[str, Callable[[Program], Program]] = {}
    exec(compile(cell.read_text(), str(cell), "exec"), space)
    options = Options(passes=(("fuse (Welder)", space["mine"]),))
    with pytest.raises(BadPass) as found:
        explorer.compile("tests/data/tiny_skip.onnx", options=options, until="rolled")
    assert found.value.sentence == (
        "the pass 'mine' failed: ZeroDivisionError: division by zero, "
        "at line 3 of the cell (`return 1 / size`)"
    )


@pytest.mark.parametrize("bad", [0, -1, float("inf"), "a"])
def test_limits_are_numbers_above_zero(bad: object) -> None:
    with pytest.raises(BadOption, match="the seconds of a pass are a number above 0"):
        explorer.compiler_pass("mine", after="fuse (Welder)", seconds=bad)  # type: ignore[arg-type]


@pytest.mark.few(1)
@pytest.mark.parametrize("work", [endless, waiting, in_c], ids=lambda w: w.__name__)
def test_ctrl_c_ends_the_helper_and_then_this_process_may_go_on(
    work: Callable[[], None], tmp_path: Path
) -> None:
    """As Jupyter interrupts a kernel: the signal comes to this process alone."""
    file = tmp_path / "helper"

    def telling(tell: Tell) -> None:
        file.write_text(str(os.getpid()))
        work()

    def interrupt() -> None:
        while not (file.exists() and file.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    try:
        thread = Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            in_helper(telling, LARGE)
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert time.monotonic() - start < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
    assert in_helper(lambda tell: tell("the next one"), LARGE) == ("the next one",)
