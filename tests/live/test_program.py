"""The interpreter of the page does what that of the runtime does."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.runtime.device_program import instructions as isa
from tests.examples import examples
from tests.live.hand_modules import IMPORTING, INVALID, KERNELS
from tests.live.hand_programs import HandProgram, Written, run_in_node

Script = Callable[..., Any]
OPEN = """
const program = { ...given.program, ...given.changed };
try {
  const runner = await live.program.openProgram(program, bytes(given.code), new Uint8Array(0));
  runner.write(0, new Uint8Array(program.inputs[0].bytes));
  runner.run();
  say("ran");
} catch (problem) { say(problem.sentence ?? problem.stack); }
"""


def test_random_rows_leave_the_same_memory_as_in_the_runtime(in_node: Script) -> None:
    programs = [Written(seed).program for seed in range(examples(500))]
    words = {name for p in programs for name, *_ in p.rows}
    assert words >= set(range(13))
    found = run_in_node(in_node, programs, times=2)  # what a run leaves does not matter to the next
    for seed, (program, (ours, fault)) in enumerate(zip(programs, found, strict=True)):
        expected, _ = program.native()
        assert not fault, (seed, fault)
        assert np.array_equal(ours, expected), seed


def recursive(depth: int, most: int = 100) -> HandProgram:
    """A body that notes, calls itself `depth` times, and notes on its way back.

    A loop's register after the recursion's counts within the body, and is saved.
    """
    words = np.zeros(16 + 3 * 1000, np.int64)
    words[0], words[1] = depth, 2
    calls = [("note", [8, 16, ("n", n)]) for n in range(3)]
    entry, back, over = 4, 15, 16
    rows = [
        (isa.LET, 0, -1, 0, 0),
        (isa.LET, 1, 7, 0, 0),
        (isa.CALL, 0, entry, 0, 2),
        (isa.JUMP, over, 0, 0, 0),
        (isa.STORE, 1, 0, 0, 1),  # entry: the depth; is it the last?
        (isa.LOOP, 0, 0, 14, 0),
        (isa.RUN, 0, 0, 1, 0),
        (isa.LET, 1, 0, 0, 0),
        (isa.LOOP, 1, 2, 14, 0),
        (isa.DEEPEST, 0, most, 1, over),
        (isa.CALL, 0, entry, 0, 2),
        (isa.RUN, 1, 2, 5, 0),
        (isa.NEXT, 1, 1, 0, 0),
        (isa.JUMP, 8, 0, 0, 0),
        (isa.RUN, 2, 1, 1, 0),
        (isa.RETURN, 0, 0, 2, 0),
        (isa.QUIT, 0, 0, 0, 0),  # over
        (isa.STORE, 3, 1, 0, 1),
    ]
    assert rows[back][0] == isa.RETURN
    slots, faults = [0, 2, 1, 3], ["f calls itself more than 3 times."]
    return HandProgram(words, rows, calls, slots, stack=2 * (most + 3), faults=faults)


@pytest.mark.parametrize(("depth", "most"), [(0, 9), (1, 9), (5, 9), (5, 3), (90, 100)])
def test_calls_save_their_registers_and_the_deepest_ends_in_a_fault(
    in_node: Script, depth: int, most: int
) -> None:
    program = recursive(depth, most)
    ((ours, fault),) = run_in_node(in_node, [program])
    expected, sentence = program.native()
    assert fault == sentence and bool(sentence) == (depth > most)
    if not fault:  # else nothing is copied to the outputs
        assert np.array_equal(ours, expected) and ours[8] > 0


def test_a_run_begins_with_the_places_that_are_written(in_node: Script) -> None:
    """Pointers that the last run moved stand at their begin in the next."""
    words = np.zeros(96, np.int64)
    words[8:16] = np.arange(8)
    rows = [
        (isa.RUN, 0, 0, 4, 0),
        (isa.COPY, 1, 0, 16, 1),
        (isa.LET, 0, 2, 0, 0),
        (isa.POINT, 0, 2, 0, 0),
    ]
    pointers = [(0, 1, 2, 8, 0), (-1, 0, 2, 64, 0)]
    program = HandProgram(words, rows, [("add_tasks", [8, 32])], [8, 64, 40], pointers)
    first, second = (run_in_node(in_node, [program], times)[0] for times in (1, 2))
    assert np.array_equal(first[0], program.native()[0])
    assert np.array_equal(first[0], second[0]) and first[0][65] == 1


def test_words_beyond_32_bits_are_exact(in_node: Script) -> None:
    """The largest trip count is endless, and negative numbers keep their sign."""
    words = np.zeros(32, np.int64)
    words[0], words[1], words[2] = 2**63 - 1, -(2**40) - 5, 2**33
    rows = [
        (isa.LET, 0, 0, 0, 0),
        (isa.LOOP, 0, 0, 5, 0),
        (isa.STORE, 3, 0, -(2**35), 1),
        (isa.JUMP, 5, 0, 0, 0),
        (isa.FILL, 4, 8, 1, 1),
        (isa.LOOP, 0, 1, 7, 0),
        (isa.FILL, 4, 8, 2, 1),
        (isa.LET, 0, 2**33 - 1, 0, 0),
        (isa.LOOP, 0, 2, 10, 0),
        (isa.FILL, 5, 8, -3, 1),
        (isa.LOOK, 1, 2, 1, 0),
        (isa.BRANCH, 1, 13, 0, 0),
        (isa.FILL, 6, 1, 4, 1),
    ]
    program = HandProgram(words, rows, slots=list(range(8)))
    ((ours, fault),) = run_in_node(in_node, [program])
    expected, _ = program.native()
    assert not fault and np.array_equal(ours, expected)
    assert list(ours[3:7]) == [-(2**35), 0, -3, 0]


@pytest.mark.parametrize(
    ("code", "changed", "sentence"),
    [
        (KERNELS, {}, "ran"),
        (KERNELS[:-1], {}, "does not accept the compiled module of by_hand"),
        (INVALID, {}, "does not accept the compiled module of by_hand"),
        (IMPORTING, {}, "asks for the function other"),
        (KERNELS, {"kernels": ["note", "other"]}, "has no kernel other"),
        (KERNELS, {"arena": 2**33}, "needs 8,59. MB of memory in one piece, and .* 4,295 MB"),
    ],
)
def test_what_cannot_run_is_one_sentence(
    in_node: Script, code: bytes, changed: dict[str, Any], sentence: str
) -> None:
    program = HandProgram(np.zeros(4096, np.int64), [(isa.RUN, 0, 0, 1, 0)], [("note", [0, 1, 2])])
    given = {"code": b64encode(code).decode(), "program": program.portable(), "changed": changed}
    said = in_node(OPEN, given)
    assert re.search(sentence, said), said
    assert "\n" not in said


def test_a_kernel_that_traps_is_named(in_node: Script) -> None:
    program = HandProgram(np.zeros(8, np.int64), [(isa.RUN, 0, 0, 1, 0)], [("trap", [])])
    given = {"code": b64encode(KERNELS).decode(), "program": program.portable(), "changed": {}}
    assert in_node(OPEN, given).startswith("The call call_0 stopped: unreachable.")


@pytest.mark.parametrize(
    ("prepared", "sentence"),
    [
        ("delete globalThis.WebAssembly;", "This browser has no WebAssembly"),
        ("WebAssembly.validate = bytes => bytes.length > 31;", "has no SIMD"),
        (
            "WebAssembly.Memory = class { constructor() { throw new RangeError(); } };",
            "did not give",
        ),
        (
            "WebAssembly.compile = async () => { throw new Error('by Content Security Policy'); };",
            "must allow 'wasm-unsafe-eval'",
        ),
    ],
)
def test_a_browser_that_cannot_is_told_so(in_node: Script, prepared: str, sentence: str) -> None:
    program = HandProgram(np.zeros(8, np.int64), [])
    given = {"code": b64encode(KERNELS).decode(), "program": program.portable(), "changed": {}}
    assert sentence in in_node(prepared + OPEN, given)
