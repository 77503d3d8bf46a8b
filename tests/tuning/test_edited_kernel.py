"""A kernel's source that was edited: right ones are timed, all others cost a sentence."""

import re

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.process.counters import counters
from explorer.process.sandbox import CAN_FORK, Limits
from explorer.tuning.edited_kernel import LONGEST_SOURCE, try_kernel

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="there is no fork here")
SHORT = Limits(seconds=1.0, mib=1024)
LOOP = "    for task in range(first, last):\n"


@pytest.fixture(scope="module")
def c() -> Compilation:
    return explorer.compile("tests/data/tiny_skip.onnx")


@pytest.fixture(scope="module")
def source(c: Compilation) -> str:
    return c.kernels[0].source


def edited(c: Compilation, source: str, limits: Limits = SHORT) -> str:
    found = try_kernel(c, c.kernels[0].name, source, seconds=0.0, limits=limits)
    assert found.against_ours is None and found.problem in str(found)
    return found.problem


def test_the_same_source_is_right_and_timed_in_turns(c: Compilation, source: str) -> None:
    made = counters.kernel_compiles
    found = try_kernel(c, c.kernels[0].name, source, seconds=0.05)
    assert found.problem == "" and found.largest_error == 0.0
    timed = found.against_ours
    assert timed is not None and timed.n >= 20 and timed.low <= timed.ratio <= timed.high
    assert timed.first.median_us > 0 and "right, and " in str(found)
    assert counters.kernel_compiles == made, "nothing of it is kept"


def test_an_edit_that_our_front_end_does_not_know_is_compiled_by_numba(
    c: Compilation, source: str
) -> None:
    text = source.replace(LOOP, f"    pass\n{LOOP}")
    found = try_kernel(c, c.kernels[0].name, text, seconds=0.0)
    assert text != source and found.problem == "" and found.against_ours is not None


def test_a_wrong_answer_is_told_with_its_place(c: Compilation, source: str) -> None:
    nothing = source[: source.index(LOOP) + len(LOOP)] + "        _t = task\n"
    said = edited(c, nothing)
    assert said.startswith("its answer is wrong: y") and "is nan and should be" in said


def test_what_writes_over_its_inputs_is_told(c: Compilation, source: str) -> None:
    said = edited(c, source.replace(LOOP, f"    st_float32(x0, 0, 7.0)\n{LOOP}"))
    assert said == "it overwrites its input x"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("what", "by", "said"),
    [
        ("for task in", "for task on", "it does not compile: invalid syntax"),
        ("argument(args, 0)", "argumend(args, 0)", "it does not compile: .*argumend"),
        ("range(first, last)", "range(first, last, 'x')", "it does not compile: "),
        (LOOP, f"    while True:\n        pass\n{LOOP}", "the edited kernel took more than 1 s$"),
        (LOOP, f"    st_float32(0, 16, 1.0)\n{LOOP}", r"the edited kernel crashed its process"),
        (
            "import math",
            "import math, os\nos._exit(3)",
            "the edited kernel ended its process with 3",
        ),
        ("import math", "held = bytearray(1 << 34)", "the edited kernel took more than 1,024 MiB"),
    ],
)
def test_what_cannot_run_costs_one_sentence(
    c: Compilation, source: str, what: str, by: str, said: str
) -> None:
    assert what in source
    problem = edited(c, source.replace(what, by, 1))
    assert re.match(said, problem) and "\n" not in problem
    assert c.run(c.random_inputs())


def test_what_is_no_kernel_is_refused(c: Compilation, source: str) -> None:
    with pytest.raises(BadOption, match="no kernel or operator is named"):
        try_kernel(c, "nothing", source)
    with pytest.raises(BadOption, match="characters"):
        try_kernel(c, c.kernels[0].name, "x" * (LONGEST_SOURCE + 1))
    with pytest.raises(BadOption, match="no code that runs here"):
        try_kernel(explorer.compile("tests/data/tiny_skip.onnx", "v100"), "sum_1", source)
