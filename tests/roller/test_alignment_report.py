"""The alignment report of a tiling that was chosen by hand."""

from __future__ import annotations

from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernels.normal import normalise
from explorer.roller.alignment_report import answers
from tests.roller.operators import matmul, relu
from tests.roller.test_policy import DEVICE


def broken(m: int, n: int, k: int, tiling: Tiling) -> list[str]:
    found = answers(normalise(matmul(m, n, k)), tiling, DEVICE, {})
    return [a.rule for a in found if not a.holds]


def test_an_aligned_tiling_breaks_no_rule() -> None:
    assert broken(112, 128, 96, Tiling((("m", 56), ("n", 64)), Micro(14, 2))) == []


def test_each_rule_that_is_broken_is_named() -> None:
    assert broken(112, 128, 96, Tiling((), Micro(20, 4))) == ["registers"]
    assert broken(112, 128, 96, Tiling((("n", 40),), Micro(14, 2))) == [
        "memory transaction", "tensor shape",
    ]  # fmt: skip
    assert broken(112, 128, 1024, Tiling((), Micro(14, 2))) == ["cache set"]


def test_a_stream_is_asked_for_whole_lines_only() -> None:
    found = answers(normalise(relu(1000)), Tiling((("e0", 7),)), DEVICE, {})
    assert [(a.rule, a.holds, a.value) for a in found] == [("memory transaction", False, 28)]
