"""What Roller decides on the data sheet of a GPU are thread blocks: they stand in the program, the
wall takes one of them, and a policy or a pass of the user's own has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options as CompileOptions
from explorer.devices.catalogue import device
from explorer.devices.hardware import Options as Hardware
from explorer.errors import BadOption, BadPolicy, Cancelled
from explorer.frontends.model import Model
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.program import Program
from explorer.ir.text.parser import parse_program
from explorer.ir.text.printer import print_program
from explorer.roller import Options
from explorer.roller.policy import candidates
from explorer.roller.transform import LegalTiles
from tests.roller.test_blocks_by_hand import BLOCK, product


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("zoo:tiny_skip", "v100"),
        ("zoo:tiny_skip", "mi50"),
        ("zoo:tiny_lstm", "h100"),
        ("zoo:small_moe", "h100"),
    ],
)
def test_the_wall_takes_what_roller_left(model: str, target: str) -> None:
    c = explorer.compile(model, target=target, until="planned")
    decisions = {d.binding: d for d in c.program.decisions.tilings}
    assert decisions
    for b in c.program.kernel_calls:
        call = b.kernel_call
        assert call.core_tiling is None and call.efficient is None
        decision = decisions.get(b.name)
        if decision is None:
            assert call.tiling is None
            assert c.explain(b.name).none and "no thread blocks: " in str(c.explain(b.name))
            continue
        costs = [x.cost_us for x in decision.candidates]
        assert call.tiling == decision.chosen == decision.candidates[0].value
        assert costs == sorted(costs)
        assert {*c.taken_blocks(b.name)} <= {*decision.allowed}
        assert c.weighed_blocks(b.name) == decision.candidates
    assert LegalTiles(c.device)(c.program) == ""


@pytest.mark.exhaustive
def test_the_text_has_the_blocks_and_reads_them_back() -> None:
    c = explorer.compile("zoo:tiny_bert", target="h100", until="rolled")
    text = print_program(c.program)
    again = parse_program(text, c.program.constants)
    blocks = [b.kernel_call.tiling for b in c.program.kernel_calls]
    assert [b.kernel_call.tiling for b in again.kernel_calls] == blocks and any(blocks)
    assert "| threads " in text and "micro" not in text
    assert print_program(again) == text


def test_without_a_wall_it_is_rollers_first_that_is_told() -> None:
    c = explorer.compile(product(), target="h100", until="rolled")
    (decision,) = c.program.decisions.tilings
    first, *others = (x for x in str(c.explain(decision.binding)).splitlines() if " threads" in x)
    assert first[0] == ">" and decision.chosen.words in first
    assert all(x[0] == " " for x in others)


def test_another_tile_of_a_block_is_priced_or_refused() -> None:
    c = explorer.compile(product(), target="h100", until="planned")
    (name,) = (b.name for b in c.program.kernel_calls)
    asked = c.explain(name, {"i": 32, "j": 8}).requested
    assert asked is not None and not asked.refused and asked.cost_us > 0
    assert isinstance(asked.value, Tiling) and asked.value.tile == (("i", 32), ("j", 8))
    refused = c.explain(name, {"q": 1}).requested
    assert refused is not None and "there is no axis 'q'" in refused.refused
    assert "asked: refused: there is no axis 'q'" in str(c.explain(name, {"q": 1}))


def test_one_by_hand_is_priced_as_the_others_are() -> None:
    """Constants that stay in no cache come from the farthest memory, for it and for them."""
    one, other = (np.full((2048, 2048), n, np.float32) for n in (1, 2))  # half of an H100's L2

    @explorer.trace
    def program(x):  # type: ignore[no-untyped-def]
        return xp.tanh(x @ one) @ other

    c = explorer.compile(program(explorer.tensor("float32", 4, 2048)), "h100", until="rolled")
    decision = c.program.decisions.tilings[0]
    slow = decision.candidates[-1]
    blocks = ((decision.binding, slow.value),)
    by_hand = c.with_options(roller=replace(c.options.roller, pinned=blocks))
    found = by_hand.program.decisions.tilings[0]
    assert found.pinned and found.candidates[0].cost_us == pytest.approx(slow.cost_us)
    asked = by_hand.explain(decision.binding, dict(slow.value.tile)).requested
    assert asked is not None and asked.cost_us == pytest.approx(slow.cost_us)


def largest(kernel: Any, device: Any, env: Any, sizes: Any) -> Iterator[Candidate[Tiling]]:
    """The thread blocks with the most threads first."""
    yield from sorted(candidates(kernel, device, env, sizes), key=lambda c: -c.value.threads)


def test_a_policy_of_ones_own_says_which_blocks_a_wall_may_take() -> None:
    free = explorer.compile(product(), target="cuda-sim")
    options = explorer.Options(roller=Options(policy=largest))
    c = explorer.compile(product(), target="cuda-sim", options=options)
    (name,) = (b.name for b in c.program.kernel_calls)
    (decision,) = c.program.decisions.tilings
    assert decision.chosen.threads == max(w.value.threads for w in free.weighed_blocks(name))
    assert not decision.weighed and {*c.taken_blocks(name)} <= {*decision.allowed}
    only = explorer.Options(roller=Options(policy=lambda *a: [Candidate("mine", BLOCK)]))
    mine = explorer.compile(product(), target="cuda-sim", options=only)
    assert mine.taken_blocks(name) == (BLOCK,)
    inputs = mine.random_inputs()
    (got,) = mine.simulate(inputs, 0).values()
    want = np.maximum(inputs["x"].astype(np.float64) @ inputs["w"], 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ([], "returned no legal thread block: it returned no candidates"),
        ([BLOCK], "returned a Tiling among its candidates"),
        ([Candidate("x", replace(BLOCK, threads=0))], "it has 0 threads"),
        ([Candidate("x", replace(BLOCK, threads=1.5))], "1.5 threads, expected an integer"),
        ([Candidate("x", replace(BLOCK, tile=7))], "pairs of an axis and its size, found int"),
        ([Candidate("x", replace(BLOCK, tile=(("i", "8"),)))], r"the tile of i is 8 \(str\)"),
        ([Candidate("x", replace(BLOCK, matrix="ij"))], "names in a tuple, found 'ij'"),
        (
            [Candidate("x", replace(BLOCK, tile=(("q", 8),)))],
            "there is no axis 'q': expected one of",
        ),
        ([Candidate("x", BLOCK, (("us", float("nan")),))], "a cost that is not a finite number"),
        ([Candidate("x", BLOCK, (), "too slow")], "the first is refused: too slow"),
        (None, "returned None, and must return Candidates with a Tiling each"),
    ],
)
def test_a_bad_policy_ends_in_one_sentence(given: Any, rule: str) -> None:
    options = explorer.Options(roller=Options(policy=lambda *a: given))
    with pytest.raises(BadPolicy, match=rule) as told:
        explorer.compile(product(), target="h100", options=options)
    assert "\n" not in told.value.sentence and "the kernel" in told.value.sentence


def test_a_tiling_is_no_thread_block() -> None:
    c = explorer.compile(product(), until="rolled")
    (decision,) = c.program.decisions.tilings
    pinned = Options(pinned=((decision.binding, decision.chosen),))
    with pytest.raises(
        BadOption, match="runs as thread blocks on h100, and its tiling has no threads"
    ):
        explorer.compile(product(), target="h100", options=explorer.Options(roller=pinned))


def with_block(program: Program, block: Tiling | None) -> Program:
    """The one kernel of a program with another block."""

    def changed(b: Any) -> Any:
        return replace(b, expr=replace(b.expr, tiling=block)) if b.name == name else b

    (name,) = (b.name for b in program.kernel_calls)
    functions = (replace(f, body=tuple(map(changed, f.body))) for f in program.functions)
    return replace(program, functions=tuple(functions))


def test_what_a_pass_puts_there_is_what_runs() -> None:
    @explorer.compiler_pass("another block", after="tile (Roller)")
    def another(program: Program) -> Program:
        return with_block(program, BLOCK)

    try:
        c = explorer.compile(product(), target="cuda-sim")
        (name,) = (b.name for b in c.program.kernel_calls)
        assert c.taken_blocks(name) == (BLOCK,)
    finally:
        explorer.forget_pass("another block")


def test_a_pass_that_leaves_none_or_an_illegal_one_is_refused() -> None:
    c = explorer.compile(product(), target="h100", until="rolled")
    legal = LegalTiles(device("h100"))
    assert legal(c.program) == ""
    assert "has no thread block" in legal(with_block(c.program, None))
    wrong = with_block(c.program, replace(BLOCK, threads=4096))
    assert "is not legal: it has 4096 threads" in legal(wrong)


def dynamic() -> Model:
    @explorer.trace
    def program(x, w):  # type: ignore[no-untyped-def]
        return x @ w

    return program(x=explorer.tensor("float32", "n", 64), w=explorer.tensor("float32", 64, 48))


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_other_sizes_have_other_blocks_but_those_that_were_set(n: int) -> None:
    free = explorer.compile(dynamic(), target="h100", until="planned")
    (name,) = (b.name for b in free.program.kernel_calls)
    weighed = {w.value for w in free.weighed_blocks(name, {"n": n})}
    assert {*free.taken_blocks(name, {"n": n})} <= weighed

    def set_to(block: Tiling) -> Compilation:
        return free.with_options(roller=replace(free.options.roller, pinned=((name, block),)))

    (decision,) = free.program.decisions.tilings
    block = replace(decision.chosen, tile=(("j", 16),), threads=16, register=())
    c = set_to(block)
    assert c.taken_blocks(name, {"n": n}) == (block,)


def test_a_neighbour_that_stages_nothing_is_no_choice() -> None:
    """On a V100 a chunk of 64 has no room beside a tile of 128 x 128, and each thread would read
    for itself, which is priced too low: the paper's own tile is the best of kernels as the paper's,
    without what ours take between phases.
    """

    @explorer.trace
    def square(a, b):  # type: ignore[no-untyped-def]
        return xp.matmul(a, b)

    both = explorer.tensor("float32", 4096, 4096)
    papers = CompileOptions(hardware=Hardware((("phase_ns", 0.0),)))
    traced = square(a=both, b=both)
    c = explorer.compile(traced, target="v100", until="rolled", options=papers)
    (decision,) = c.program.decisions.tilings
    assert decision.chosen.tile == (("i", 128), ("j", 64)) and decision.chosen.threads == 256
    assert decision.chosen.shared == (("k", 8),)
    assert all(64 not in dict(x.value.shared).values() for x in decision.candidates)


@pytest.mark.usefixtures("own_cache")
def test_weighing_them_can_be_cancelled() -> None:
    steps: list[str] = []
    with pytest.raises(Cancelled, match="weighing thread blocks"):
        explorer.compile(
            product(),
            target="a100",
            progress=lambda step, *_: steps.append(step),
            cancelled=lambda: any(step.startswith("tile (Roller): ") for step in steps),
        )
