"""Roller's policies of one's own: a bad one ends in one sentence, a good one in its own tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pytest

from explorer.devices.catalogue import device as device_named
from explorer.errors import BadOption, BadPolicy, Cancelled
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.roller import Options, Roll
from explorer.roller.policy import candidates
from explorer.roller.weigh_tiles import weigh
from tests.codegen.cases import linear
from tests.roller.test_policy import DEVICE, program_of

PROGRAM = program_of(linear(128, 64, 96, "relu", {}))
V100 = device_named("v100")
MICRO = Micro(8, 2, DEVICE.lanes)


def of(*tile: Any, micro: Any = MICRO, **more: Any) -> Candidate:
    return Candidate("mine", Tiling(tile, micro, **more), (("compute", 1.0),))


def raises(*args: Any) -> Iterator[Candidate]:
    yield of(("i", 8))
    raise ZeroDivisionError("in the middle")


def raises_at_once(*args: Any) -> Iterator[Candidate]:
    raise KeyError("no such thing")


REFUSED = Candidate("mine", Tiling((), MICRO), (), "too slow for my taste")

BAD: dict[str, tuple[Callable[..., Any], str]] = {
    "a negative size": (lambda *a: [of((axis(a), -3))], "is -3, and must be 1 to 128"),
    "no size": (lambda *a: [of((axis(a), 0))], "is 0, and must be 1 to 128"),
    "a size that asks for terabytes": (lambda *a: [of((axis(a), 10**9))], "is 1000000000"),
    "half a size": (lambda *a: [of((axis(a), 8.5))], r"8.5 \(float\), and must be a whole number"),
    "true as a size": (lambda *a: [of((axis(a), True))], r"True \(bool\)"),
    "an axis that there is not": (lambda *a: [of(("nowhere", 8))], "no axis nowhere"),
    "an axis of the sum": (
        lambda kernel, *a: [of((kernel.computes[0].reduce[0].name, 8))],
        "there is no axis",
    ),
    "an axis twice": (lambda *a: [of((axis(a), 8), (axis(a), 16))], "twice"),
    "sizes without axes": (lambda *a: [of(8, 16)], "pairs of an axis and its size, found 8"),
    "a tile that is no tuple": (
        lambda *a: [Candidate("mine", Tiling({"i": 8}, MICRO))],  # type: ignore[arg-type]
        "pairs of an axis and its size, found dict",
    ),
    "a register tile beyond the registers": (
        lambda *a: [of(micro=Micro(30, 4, DEVICE.lanes))],
        "the register tile needs 125 vector registers",
    ),
    "a register tile of nothing": (lambda *a: [of(micro=Micro(0, 2, 16))], "has 0 rows"),
    "vectors that there are not": (lambda *a: [of(micro=Micro(8, 2, 3))], "vectors of 3"),
    "no register tile": (lambda *a: [of(micro=None)], "a register tile is a Micro, found NoneType"),
    "a negative block": (lambda *a: [of(depth_block=-1)], "`depth_block` is a number from 0"),
    "threads in words": (lambda *a: [of(threads="a")], "it has 'a' threads, and must have 0"),
    "no threads": (lambda *a: [of(threads=None)], "it has None threads, and must have 0"),
    "fewer than no threads": (lambda *a: [of(threads=-1)], "it has -1 threads, and must have 0"),
    "a thread block": (lambda *a: [of(threads=32)], "it is a thread block, and a task of"),
    **{
        f"{name} as {value}": (
            lambda *a, name=name, value=value: [of(**{name: value})],
            f"`{name}` is of thread blocks and must be \\(\\) here, found ",
        )
        for name in ("register", "shared", "parts", "matrix")
        for value in (3, None, (("zz", 2),), "i")
    },
    "columns between panels": (
        lambda kernel, *a: [of((kernel.computes[-1].axes[-1].name, 20))],
        "as legal, and it is not",
    ),
    "a refused candidate alone": (lambda *a: [REFUSED], "the first is refused: too slow"),
    "nothing": (lambda *a: [], "it returned no candidates"),
    "None": (lambda *a: None, "returned None, and must return Candidates"),
    "a tiling": (lambda *a: Tiling(), "returned a Tiling, and must return"),
    "tilings": (lambda *a: [Tiling()], "returned a Tiling among its candidates"),
    "a candidate of nothing": (lambda *a: [Candidate("mine", None)], "a candidate of None"),
    "a cost that is no number": (
        lambda *a: [Candidate("x", Tiling((), MICRO), (("compute", float("nan")),))],
        "a cost that is not a finite number",
    ),
    "terms that are none": (
        lambda *a: [Candidate("x", Tiling((), MICRO), 3)],  # type: ignore[arg-type]
        "a cost that is not a finite number",
    ),
    "an error in the middle": (raises, "failed: ZeroDivisionError: in the middle"),
    "an error at once": (raises_at_once, "failed: KeyError"),
    "an exit": (lambda *a: exit(3), "failed: SystemExit: 3"),
    "too few parameters": (lambda kernel: [], "failed: TypeError"),
}


def axis(args: tuple[Any, ...]) -> str:
    """The first axis of the kernel's output."""
    return str(args[0].computes[-1].axes[0].name)


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_ends_in_one_sentence(what: str) -> None:
    policy, rule = BAD[what]
    with pytest.raises(BadPolicy, match=rule) as told:
        Roll(DEVICE, Options(policy=policy))(PROGRAM)
    sentence = told.value.sentence
    assert repr(policy.__name__) in sentence and "the kernel 'out'" in sentence
    assert "\n" not in sentence and len(sentence) < 500


def test_the_cause_is_kept() -> None:
    with pytest.raises(BadPolicy) as told:
        Roll(DEVICE, Options(policy=raises))(PROGRAM)
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_of_an_endless_policy_a_few_are_taken_and_ctrl_c_is_heard() -> None:
    taken: list[int] = []

    def endless(*args: Any) -> Iterator[Candidate]:
        for _ in repeat(None):
            taken.append(1)
            yield of((axis(args), 8))

    (decision,) = Roll(DEVICE, Options(policy=endless, top_k=3))(PROGRAM).decisions.tilings
    assert len(taken) < 20 and decision.chosen.tile[0][1] == 8
    for stop in (KeyboardInterrupt, Cancelled):

        def stopped(*args: Any, stop: type[BaseException] = stop) -> Iterator[Candidate]:
            raise stop("stop")

        with pytest.raises(stop):
            Roll(DEVICE, Options(policy=stopped))(PROGRAM)


def test_a_sound_policy_is_taken_and_what_it_refuses_comes_last() -> None:
    def sound(kernel: Any, device: Any, env: Any, sizes: Any) -> Iterator[Candidate]:
        yield REFUSED
        name = axis((kernel,))
        yield weigh(kernel, Tiling(((name, np.int64(32)),), MICRO), device, env, sizes)  # type: ignore[arg-type]
        yield from candidates(kernel, device, env, sizes, 2)

    (decision,) = Roll(DEVICE, Options(policy=sound))(PROGRAM).decisions.tilings
    ((_, size),) = decision.chosen.tile
    assert size == 32 and type(size) is int
    assert decision.candidates[-1].refused
    assert [bool(c.refused) for c in decision.candidates] == sorted(
        bool(c.refused) for c in decision.candidates
    )


@pytest.mark.parametrize("tile", [-3, 0, 10**9, -(2**63), True, 2.0])
def test_a_tile_by_hand_keeps_the_same_rules(tile: Any) -> None:
    pinned = (("out", Tiling((("e0", tile),), MICRO)),)
    with pytest.raises(BadOption, match="the tile of e0 is"):
        Roll(DEVICE, Options(pinned=pinned))(PROGRAM)


@pytest.mark.parametrize("threads", ["a", None, -1])
def test_threads_by_hand_keep_the_same_rules(threads: Any) -> None:
    for device, word in ((DEVICE, "and must have 0"), (V100, "threads")):
        pinned = (("out", Tiling((), MICRO if device is DEVICE else Micro(), threads=threads)),)
        with pytest.raises(BadOption, match=rf"out is not legal: it has {threads!r} .*{word}"):
            Roll(device, Options(pinned=pinned))(PROGRAM)


@pytest.mark.parametrize(
    "field", [{"micro": 3}, {"micro": MICRO}, {"pack": True}, {"depth_block": 8}], ids=str
)
def test_fields_of_cores_are_refused_of_thread_blocks(field: dict[str, Any]) -> None:
    def odd(*args: Any) -> list[Candidate]:
        return [replace(c, value=replace(c.value, **field)) for c in candidates(*args)]

    (name,) = field
    with pytest.raises(BadPolicy, match=f"`{name}` is of tasks on one core and must be"):
        Roll(V100, Options(policy=odd))(PROGRAM)


def test_what_is_no_policy_is_refused_when_options_are_made() -> None:
    with pytest.raises(BadOption, match=r"roller\.policy is a function or one of"):
        Options(policy=3)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="found 'fastest'"):
        Options(policy="fastest")
