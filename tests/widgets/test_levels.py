"""Three levels in one module: what calls what, and how many share it."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import explorer
from explorer.compiler.operators import operators
from explorer.ir.calls import Branch, LibraryCall, OpCall, ShapeOf, Var
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from tests.widgets import made_by_hand as hand
from widgets.draw.table import sentence_text
from widgets.relax import levels

C = hand.HandMade()
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def rows() -> levels.LevelRows:
    """The hand-made module with a second relu, a library call, and an operator not lowered yet."""
    again = hand.bind(Var("again", hand.RELU.type), hand.LEGALIZED.main.body[1].expr, "relu")
    found = hand.bind(Var("found", Tensor(None, "int64", 2)), LibraryCall("onnx", "NonZero", ()))
    shape = hand.bind(Var("dims", Tensor((2,), "int64")), ShapeOf((hand.BATCH, 10)))
    late = hand.bind(Var("late", hand.OUT.type), OpCall("Softmax", (hand.FC,)), "softmax")
    body = (*hand.LEGALIZED.main.body, again, found, shape, late)
    return levels.of_program(hand.LEGALIZED.with_body(body), operators(C.model.program, C.program))


def test_lowering_one_call_leaves_the_others_at_their_level(rows: levels.LevelRows) -> None:
    assert dict(rows.levels) == {"operator": 1, "kernel": 5, "library": 1, "view or shape": 2}
    by_name = {c.name: c for c in rows.calls}
    assert by_name["late"].note == "Softmax, not lowered yet" and not by_name["late"].entries
    assert by_name["flat"].note == "the bytes of relu_out"
    assert by_name["dims"].note == "the dims batch, 10"


def test_equal_kernels_are_one_entry_with_its_loops(rows: levels.LevelRows) -> None:
    first, second = (next(c for c in rows.calls if c.name == n) for n in ("relu_out", "again"))
    assert first.entries == second.entries
    entry = rows.entries[first.entries[0]]
    assert (entry.name, entry.calls, entry.text) == (
        "relu",
        2,
        "for n < batch, o < 16, h < 6, w < 6",
    )
    assert entry.symbols == ("batch",)
    assert sum(e.calls for e in rows.entries) == sum(len(c.entries) for c in rows.calls)


def test_every_level_is_said_in_words_and_every_call_has_its_arrow(rows: levels.LevelRows) -> None:
    body = levels.figure(rows, (1012, 600), "conv").body
    for level, _ in rows.levels:
        assert f">{level}</text>" in body
    assert body.count('class="way"') == sum(len(c.entries) for c in rows.calls)
    assert "onnx.NonZero" in body and "2 calls" in body


def test_entries_stand_in_order_and_apart_and_the_one_of_most_calls_is_there(
    rows: levels.LevelRows,
) -> None:
    size = (1012, 600)
    shared = tuple(replace(rows.calls[0], entries=(i % 9,)) for i in range(16))
    alone = tuple(replace(rows.calls[0], entries=(i,)) for i in range(16))
    for calls, count in ((shared, 9), (alone, 16)):
        entries = tuple(replace(rows.entries[0], calls=n) for n in range(30))
        some = replace(rows, calls=calls, entries=entries)
        found = levels._places(calls, some, size, False)
        ys = sorted(found.entries.values())
        high = levels.TALL if found.tall else levels.LOW
        assert len(ys) == count + 1 and 29 in found.entries
        assert ys[0] - high / 2 >= levels.TOP and ys[-1] + high / 2 <= size[1]
        assert all(b - a >= high for a, b in pairwise(ys))


def test_the_sentences_count_levels_and_name_the_kernel_of_most_calls(
    rows: levels.LevelRows,
) -> None:
    first, second = map(sentence_text, levels.see(rows))
    assert first == (
        "Of 9 bindings 1 is an operator, 5 are kernel calls, 1 is a call of a library, "
        "2 are views or shapes."
    )
    assert second == "4 kernels serve 5 calls; relu serves 2 of them."


def test_a_branch_goes_to_both_of_its_functions() -> None:
    body = (*hand.LEGALIZED.main.body, hand.bind(hand.OUT, Branch(hand.OUT, "yes", "no", ())))
    others = tuple(replace(hand.LEGALIZED.main, name=n, body=()) for n in ("yes", "no"))
    program = replace(hand.LEGALIZED, functions=(replace(hand.LEGALIZED.main, body=body), *others))
    rows = levels.of_program(program, operators(C.model.program, C.program))
    assert [rows.entries[e].name for e in rows.calls[-1].entries] == ["yes", "no"]
    assert rows.calls[-1].level == "host"


def test_a_module_that_was_not_lowered_shows_its_operators() -> None:
    class Early(hand.HandMade):
        @property
        def snapshots(self) -> tuple[hand.Snapshot, ...]:
            return super().snapshots[:2]

    assert levels.lowered_program(Early()).stage == Stage.TYPED
    known = operators(C.model.program, C.program)
    assert dict(levels.data(Early(), known).levels) == {"operator": 6}


def test_a_real_module_has_an_entry_for_every_kernel_call() -> None:
    compiled = explorer.compile(DATA / "tiny_llama.onnx", until="legalized")
    found = levels.data(compiled, operators(compiled.model.program, compiled.program))
    kernels = [e for e in found.entries if e.level == "kernel"]
    assert sum(e.calls for e in kernels) == len(compiled.program.kernel_calls) > len(kernels)
