"""Steps are remembered by content, checked on request, and stopped when asked."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.cache import Memory
from explorer.errors import BadOption, Cancelled
from explorer.frontends.load import load
from explorer.ir.calls import KernelCall
from explorer.ir.dims import ShapeEnv, SymbolBound
from explorer.ir.kernel import apply
from explorer.ir.program import Binding, Constant, Program
from explorer.ir.stage import Stage
from explorer.passes import compiler_pass, find_pass, passes, snapshots
from explorer.passes.fingerprint import differ_beside_bindings, pass_key, program_key
from explorer.passes.random_inputs import random_inputs
from explorer.passes.snapshots import Step, run_steps
from explorer.process.counters import counters
from explorer.process.garbage import rare_collections
from explorer.relax import deduce, legalize
from explorer.transforms.simplify.redundancy import remove_dead_code
from tests.transforms.programs import LIGHT, legalized, typed, weights

node = helper.make_node


@dataclass(frozen=True)
class Rename:
    """A pass with an option."""

    name: str = "model"

    def __call__(self, program: Program) -> Program:
        return replace(program, name=self.name)


@dataclass(frozen=True)
class Weights:
    """A pass that makes weights."""

    n: int

    def __call__(self, program: Program) -> Program:
        more = Constant(np.full(2_000, self.n, np.float32))
        return replace(program, constants={**program.constants, f"w{self.n}": more})


def _scaled(binding: Binding, by: float) -> Binding:
    """A binding whose kernel gives so many times as much."""
    assert isinstance(binding.expr, KernelCall)
    kernel = binding.expr.kernel
    last = kernel.computes[-1]
    wrong = replace(last, expr=apply("mul", last.expr, by))
    kernel = replace(kernel, computes=(*kernel.computes[:-1], wrong))
    return replace(binding, expr=replace(binding.expr, kernel=kernel))


def break_values(program: Program) -> Program:
    """A pass that is wrong: the last kernel gives one more."""
    binding = program.main.body[-1]
    assert isinstance(binding.expr, KernelCall)
    kernel = binding.expr.kernel
    last = kernel.computes[-1]
    wrong = replace(last, expr=apply("add", last.expr, 1.0))
    kernel = replace(kernel, computes=(*kernel.computes[:-1], wrong))
    body = (*program.main.body[:-1], replace(binding, expr=replace(binding.expr, kernel=kernel)))
    return program.with_body(body)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    return legalized(tmp_path, nodes, {"x": ("n", 4)}, ["y"], {"w": weights(4, 5)})


def steps(*names: str) -> list[Step]:
    return [Step(f"rename {n}", Stage.LEGALIZED, Rename(n)) for n in names]


def test_only_what_follows_a_change_runs_again(program: Program) -> None:
    memo: Memory = Memory()
    run_steps(program, steps("a", "b", "c"), memo=memo)
    with counters.delta() as did:
        after, snapshots = run_steps(program, steps("a", "B", "c"), memo=memo)
    assert [s.cached for s in snapshots] == [True, False, False]
    assert (did.pass_hits, did.pass_runs) == (1, 2)
    assert after.name == "c"


def test_equal_results_are_found_again_behind_different_steps(program: Program) -> None:
    memo: Memory = Memory()
    run_steps(program, steps("a", "b", "c"), memo=memo)
    _, snapshots = run_steps(program, steps("z", "b", "c"), memo=memo)
    assert [s.cached for s in snapshots] == [False, False, True]


def test_another_device_is_another_result(program: Program) -> None:
    memo: Memory = Memory()
    run_steps(program, steps("a"), memo=memo, device_key="v100")
    _, snapshots = run_steps(program, steps("a"), memo=memo, device_key="a100")
    assert not snapshots[0].cached


def test_snapshots_hold_before_and_after(program: Program) -> None:
    _, (first, second) = run_steps(program, steps("a", "b"), memo=Memory())
    assert first.before is program and first.after is second.before
    assert second.decisions == program.decisions


def test_a_sound_pass_gets_its_badge(program: Program) -> None:
    step = Step("dead code", Stage.LEGALIZED, remove_dead_code)
    _, (snapshot,) = run_steps(program, [step], check=True, memo=Memory())
    assert snapshot.checked is True


def test_a_pass_that_changes_values_is_found_out(program: Program) -> None:
    broken = [Step("broken", Stage.LEGALIZED, break_values), *steps("fine")]
    _, (wrong, fine) = run_steps(program, broken, check=True, memo=Memory())
    assert isinstance(wrong.checked, str) and wrong.checked.startswith("y: largest difference")
    assert fine.checked is True


def test_what_rounding_decides_is_no_fault_and_hides_none(tmp_path: Path) -> None:
    """Pixels of one value are equal but for the last bit: which is the largest is free."""
    graph = [
        node("Resize", ["x", "", "", "size"], ["a"], mode="linear"),
        node("TopK", ["a", "k"], ["v", "i"], axis=3),
        node("Relu", ["x"], ["y"]),
    ]
    given = {"size": np.array([33, 1, 2, 2]), "k": np.array([1])}
    program = typed(tmp_path, graph, {"x": (1, 1, 1, 1)}, ["i", "y"], given)
    step = Step("legalise", Stage.LEGALIZED, legalize)
    after, (right,) = run_steps(program, [step], check=True, memo=Memory())
    assert not isinstance(right.checked, str)
    last = after.main.body[-1]
    assert last.var.name == "y"
    broken = [step, Step("broken", Stage.LEGALIZED, break_values)]
    _, (_, wrong) = run_steps(program, broken, check=True, memo=Memory())
    assert isinstance(wrong.checked, str) and wrong.checked.startswith("y: largest difference")


def test_a_pass_that_breaks_the_program_is_found_out(program: Program) -> None:
    def drop(p: Program) -> Program:
        return p.with_body(p.main.body[1:])

    _, (snapshot,) = run_steps(program, [Step("drop", Stage.LEGALIZED, drop)], check=True)
    assert isinstance(snapshot.checked, str)


def test_progress_is_told_and_a_wish_to_stop_is_heard(program: Program) -> None:
    told: list[tuple[str, int, int]] = []
    with pytest.raises(Cancelled, match="rename b"):
        run_steps(
            program,
            steps("a", "b"),
            progress=lambda *at: told.append(at),
            cancelled=lambda: len(told) == 1,
            memo=Memory(),
        )
    assert told == [("rename a", 0, 2)]


def test_the_content_of_a_program_is_its_key(program: Program, tmp_path: Path) -> None:
    again = legalized(
        tmp_path,
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        {"x": ("n", 4)}, ["y"], {"w": weights(4, 5)},
    )  # fmt: skip
    other = legalized(
        tmp_path,
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        {"x": ("n", 4)}, ["y"], {"w": weights(4, 5, seed=1)},
    )  # fmt: skip
    assert program_key(program) == program_key(again)
    assert program_key(program) != program_key(other)
    assert program_key(program) != program_key(break_values(program))
    bounded = replace(program, env=ShapeEnv((SymbolBound("n", 1, 8),)))
    assert program_key(program) != program_key(bounded)


def test_other_decisions_are_seen_without_all_of_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a policy of Rammer that is tried what other policies decided is no concern."""
    c = explorer.compile("zoo:tiny_skip", until="planned")
    told: list[Program] = []
    monkeypatch.setattr(snapshots, "program_key", lambda p: told.append(p) or program_key(p))
    for policy in ("op-by-op", "critical-path"):
        other = c.with_options(rammer=replace(c.options.rammer, policy=policy))
        assert other.program.decisions.rammer != c.program.decisions.rammer
    assert not told
    program = c.program
    assert not differ_beside_bindings(program, replace(program, env=ShapeEnv(program.env.symbols)))
    assert differ_beside_bindings(program, replace(program, name="another"))


def test_a_pass_is_its_options_and_the_source_of_its_functions() -> None:
    def one(x: int) -> int:
        return x + 1

    def two(x: int) -> int:
        return x + 2

    assert pass_key(Rename("a")) == pass_key(Rename("a")) != pass_key(Rename("b"))
    assert pass_key((one,)) != pass_key((two,))


def test_the_key_of_a_large_program_is_quick() -> None:
    program = legalize(deduce(load(str(LIGHT / "light_densenet121.onnx")).program))
    start = perf_counter()
    first = program_key(program)
    cold = perf_counter() - start
    start = perf_counter()
    assert program_key(program) == first
    again = perf_counter() - start
    assert again < cold and again < 1.0


def test_passes_are_found_by_name() -> None:
    @compiler_pass("test-pass", paper="none")
    def nothing(program: Program) -> Program:
        """Do nothing."""
        return program

    assert find_pass("test-pass").run is nothing
    assert passes()["test-pass"].promise == "Do nothing."
    with pytest.raises(BadOption, match="no pass is named 'no-such'"):
        find_pass("no-such")


def test_random_indices_stay_within_what_they_select(tmp_path: Path) -> None:
    from onnx import TensorProto

    nodes = [node("Gather", ["table", "ids"], ["y"])]
    before = legalized(
        tmp_path,
        nodes,
        {"ids": ("n",)},
        ["y"],
        {"table": weights(7, 2)},
        {"ids": TensorProto.INT64},
    )
    ids = random_inputs(before, {"n": 500})["ids"]
    assert ids.min() == 0 and ids.max() == 6


def test_models_not_used_for_long_are_forgotten(program: Program) -> None:
    from explorer.passes.snapshots import MEMO_MODELS, memo_of

    first = memo_of("model 0", program)
    assert memo_of("model 0", program) is first
    for n in range(1, MEMO_MODELS + 1):
        memo_of(f"model {n}", program)
    assert memo_of("model 0", program) is not first


def test_what_steps_made_of_constants_is_forgotten_before_it_is_too_much(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting of a pass makes weights of its own: only the last few are remembered."""
    from explorer.passes import snapshots

    monkeypatch.setattr(snapshots, "MEMO_BYTES", 40_000)
    monkeypatch.setattr(snapshots, "MEMO_TIMES", 0)
    monkeypatch.setattr(snapshots, "_memos", OrderedDict())
    made = []
    with rare_collections():  # what was there before is not looked through
        for n in range(20):
            after, _ = run_steps(program, [Step("weights", Stage.LEGALIZED, Weights(n))])
            made.append(weakref.ref(after.constants[f"w{n}"]))
        del after
        gc.collect()
    assert 1 <= sum(one() is not None for one in made) <= 5


def test_large_arrays_are_named_only_while_they_live(tmp_path: Path) -> None:
    from explorer.passes.fingerprint import _objects

    nodes = [node("MatMul", ["x", "w"], ["y"])]
    with rare_collections():  # what was there before is not looked through, and so does not go
        large = legalized(tmp_path, nodes, {"x": ("n", 256)}, ["y"], {"w": weights(256, 256)})
        gc.collect()
        before = len(_objects)
        assert program_key(large) == program_key(large)
        assert len(_objects) == before + 1
        del large
        gc.collect()
        assert len(_objects) <= before


def test_steps_after_one_that_broke_the_program_are_not_blamed(program: Program) -> None:
    def drop(p: Program) -> Program:
        return p.with_body(p.main.body[1:])

    broken = [*steps("a"), Step("drop", Stage.LEGALIZED, drop), *steps("b", "c")]
    _, snapshots = run_steps(program, broken, check=True, memo=Memory())
    assert [s.name for s in snapshots if isinstance(s.checked, str)] == ["drop"]
    assert snapshots[0].checked is True


def test_a_check_takes_sizes_that_the_operators_take(tmp_path: Path) -> None:
    nodes = [node("Div", ["x", "w"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": ("n",)}, ["y"], {"w": weights(9)})
    steps = [Step("dead code", Stage.LEGALIZED, remove_dead_code)]
    good = run_steps(before, steps, check=True)[1]
    bad = run_steps(before, [Step("break", Stage.LEGALIZED, break_values)], check=True)[1]
    assert good[0].checked is True and isinstance(bad[0].checked, str)


def test_a_check_allows_a_rounding_of_a_narrow_result(tmp_path: Path) -> None:
    """One float16 to the next is more than float32's tolerance of the largest value."""
    half = int(TensorProto.FLOAT16)
    nodes = [node("Add", ["x", "w"], ["s"]), node("Cast", ["s"], ["y"], to=half)]
    before = legalized(tmp_path, nodes, {"x": (200, 200)}, ["y"], {"w": weights(200, 200)})

    def scaled(by: float) -> Callable[[Program], Program]:
        def change(p: Program) -> Program:
            return p.with_body((_scaled(p.main.body[0], by), *p.main.body[1:]))

        return change

    for by, blamed in ((1 + 3e-4, False), (1.01, True)):
        step = Step("scale", Stage.LEGALIZED, scaled(by))
        (snapshot,) = run_steps(before, [step], check=True)[1]
        assert isinstance(snapshot.checked, str) == blamed


def test_a_check_tries_the_least_sizes(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "v"], ["z"]), node("Add", ["x", "w"], ["y"])]
    constants = {"w": weights(9), "v": weights(11)}
    before = legalized(tmp_path, nodes, {"x": ("n",)}, ["y", "z"], constants)
    checked = run_steps(before, [Step("break", Stage.LEGALIZED, break_values)], check=True)[1]
    assert "largest difference" in str(checked[0].checked)


def test_a_check_says_nothing_where_no_size_is_taken(tmp_path: Path) -> None:
    target = {"shape": np.array([1000], np.int64)}
    nodes = [node("Reshape", ["x", "shape"], ["z"]), node("Relu", ["z"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": ("n", "m")}, ["y"], target)
    steps = [Step("dead code", Stage.LEGALIZED, remove_dead_code)]
    assert run_steps(before, steps, check=True)[1][0].checked is None
