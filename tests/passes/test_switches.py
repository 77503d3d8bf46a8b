"""Steps off, or in another order: the answers stay, and what would break is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import explorer
from explorer import Options, Stage
from explorer.compiler.pipeline import pipeline
from explorer.errors import BadOption
from explorer.passes.arrangement import Options as Steps
from explorer.passes.arrangement import arrange_steps, why_needed
from explorer.passes.snapshots import Step
from explorer.tuning import settings

MODELS = ("zoo:tiny_bert", "zoo:small_lstm", "zoo:small_skipnet")


def why_fixed(steps: Sequence[Step], name: str, after: str) -> str:
    """Why a step cannot follow another one; "" if it can."""
    try:
        arrange_steps(steps, Steps(moved=((name, after),)))
    except BadOption as refused:
        return refused.sentence
    return ""


def all_steps() -> tuple[Step, ...]:
    return pipeline(Options(), explorer.device("this-cpu"))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [s.name for s in steps]


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", MODELS)
def test_every_step_that_may_be_left_out_leaves_the_answers(model: str) -> None:
    whole = explorer.compile(model)
    inputs = whole.random_inputs()
    wanted = whole.run(inputs)
    steps = pipeline(whole.options, whole.device)
    optional = [s.name for s in steps if not why_needed(steps, s.name)]
    assert len(optional) > 15
    halves = optional[::2], optional[1::2], optional
    for off in halves:
        found = whole.with_options(steps=Steps(off=tuple(off)))
        assert not {s.name for s in found.snapshots} & set(off)
        for name, value in found.run(inputs).items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_that_is_not_refused_leaves_the_answers(seed: int) -> None:
    whole = explorer.compile("zoo:tiny_bert")
    inputs, random = whole.random_inputs(), Random(seed)
    wanted = whole.run(inputs)
    steps, moved = pipeline(whole.options, whole.device), tuple[tuple[str, str], ...]()
    for _ in range(12):
        step = random.choice(steps)
        after = random.choice(["", *(s.name for s in steps if s.stage == step.stage)])
        if after != step.name and not why_fixed(steps, step.name, after):
            moved = (*moved, (step.name, after))
            steps = arrange_steps(steps, Steps(moved=((step.name, after),)))
    found = whole.with_options(steps=Steps(moved=moved))
    assert [s.name for s in found.snapshots[: len(steps)]] == names(steps)
    assert names(steps) != names(pipeline(whole.options, whole.device))
    for name, value in found.run(inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-3, atol=1e-4)


def test_what_another_step_needs_cannot_be_left_out() -> None:
    with pytest.raises(
        BadOption,
        match=r"cannot be left out: .* needs tiles, which it",
    ):
        arrange_steps(all_steps(), Steps(off=("tile (Roller)",)))
    assert why_needed(all_steps(), "fold constants") == ""
    with pytest.raises(BadOption, match="'legalise to kernels' cannot be left out"):
        explorer.compile(
            "zoo:tiny_bert", options=Options(steps=Steps(off=("legalise to kernels",)))
        )


def test_a_step_stays_behind_what_it_needs_and_in_its_stage() -> None:
    steps = all_steps()
    said = why_fixed(steps, "remove dead code", "")
    assert said == (
        "the step 'remove dead code' cannot stand before 'legalise to kernels': it needs kernels"
    )
    assert "a step cannot change its stage" in why_fixed(steps, "clean up", "fold constants")
    assert why_fixed(steps, "clean up", "legalise to kernels") == ""
    fused = pipeline(
        replace(Options(), relax=replace(Options().relax, fuse=True)), explorer.device("this-cpu")
    )
    assert "it has no effect without it" in why_fixed(fused, "name reshapes", "legalise to kernels")


def test_a_step_that_is_not_there_is_answered_with_a_near_one() -> None:
    with pytest.raises(BadOption, match=r"no step 'fold constant'.*'fold constants'"):
        arrange_steps(all_steps(), Steps(off=("fold constant",)))
    for bad in ({"off": "tile (Roller)"}, {"off": (1,)}, {"moved": (("a",),)}):
        with pytest.raises(BadOption):
            Steps(**bad)  # type: ignore[arg-type]


def test_steps_are_arranged_from_a_shell_too() -> None:
    options = settings.apply(Options(), ["steps.off=fold constants"])
    assert options.steps.off == ("fold constants",)
    c = explorer.compile("zoo:tiny_bert", options=options, until=Stage.TYPED)
    assert "fold constants" not in [s.name for s in c.snapshots]


def test_what_stands_before_a_switch_is_kept() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.WELDED)
    other = c.with_options(steps=Steps(off=("online softmax",)))
    last = [s.name for s in c.snapshots].index("online softmax")
    assert all(s.cached for s in other.snapshots[:last])


def test_a_pass_of_ones_own_is_off_like_any_other() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.TYPED)
    own = c.with_options(passes=(("fold constants", _same),))
    assert "_same" in [s.name for s in own.snapshots]
    off = own.with_options(steps=Steps(off=("_same",)))
    assert "_same" not in [s.name for s in off.snapshots]


def _same(program: explorer.ir.program.Program) -> explorer.ir.program.Program:
    return program
