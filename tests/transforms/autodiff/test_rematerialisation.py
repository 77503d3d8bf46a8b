"""Values computed again instead of kept: the same bits in less memory, as predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.grinder import Options as GrinderOptions
from explorer.ir.decisions.decided import Rematerialisation
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.rammer import Options as RammerOptions
from explorer.training import dropout
from explorer.transforms.autodiff.options import Options
from explorer.transforms.autodiff.rematerialisation import Rematerialise
from explorer.transforms.simplify.redundancy import remove_dead_code, share_common_subexpressions
from tests.examples import examples
from tests.strategies.arrays.statements import Statement, run, statements

LAYERS = 16
ROUNDING = 256  # of the largest element, in steps of its precision
Loss = Callable[..., Any]


def mlp(weights: Any, x: Any) -> Any:
    """Many layers of one width."""
    for w in weights:
        x = enp.tanh(x @ w)
    return (x * x).mean()


def given_to(loss: Loss, width: int = 31, batch: int = 67, layers: int = LAYERS) -> Any:
    draw = np.random.default_rng(5)
    weights = [draw.normal(size=(width, width)).astype(np.float32) / 4 for _ in range(layers)]
    return weights, draw.normal(size=(batch, width)).astype(np.float32)


def compiled(loss: Loss, args: Sequence[Any], again: Options, **others: Any) -> Compilation:
    """The loss and its gradients by the first argument."""
    types = [_types(a) for a in args]
    model = explorer.value_and_grad(loss)(*types)
    rammer = others.pop("rammer", RammerOptions(threads=2))
    options = explorer.Options(rematerialisation=again, rammer=rammer, **others)
    return explorer.compile(model, options=options)


def _types(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_types(t) for t in tree]
    if isinstance(tree, Tensor):
        return tree
    return Tensor(np.shape(tree), str(np.asarray(tree).dtype))


def flat(args: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(a) for arg in args for a in (arg if isinstance(arg, list) else [arg])]


def same_bits(one: Compilation, other: Compilation, args: Sequence[Any]) -> bool:
    found = [c.run(*flat(args)) for c in (one, other)]
    pairs = zip(*(f.values() for f in found), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def agrees(plain: Compilation, again: Compilation, args: Sequence[Any]) -> bool:
    """The same bits, or to rounding where rows lie in place: sums over them go along memory."""
    moved = again.snapshot("stack rows in place")
    if moved.before == moved.after:
        return same_bits(plain, again, args)
    found = [c.run(*flat(args)) for c in (plain, again)]
    return all(map(near, found[0].values(), found[1].values()))


def near(one: np.ndarray, other: np.ndarray) -> bool:
    most = float(np.abs(one).max(initial=0.0, where=np.isfinite(one)))
    bound = ROUNDING * float(np.finfo(one.dtype).eps) * max(most, 1.0)
    return one.dtype == other.dtype and np.allclose(one, other, 0, bound, equal_nan=True)


def decided(c: Compilation) -> Rematerialisation:
    (found,) = c.program.decisions.rematerialisation
    return found


def kernels(c: Compilation) -> int:
    return len(c.program.kernel_calls)


@pytest.fixture(scope="module")
def pair() -> tuple[Compilation, Compilation, Any]:
    args = given_to(mlp)
    return compiled(mlp, args, Options()), compiled(mlp, args, Options(share=0.6)), args


def test_gradients_are_the_same_and_take_less_memory(pair: Any) -> None:
    """B5.14: equal gradients, fewer bytes kept, as many operations again as predicted."""
    plain, again, args = pair
    assert same_bits(plain, again, args)
    chosen, without = decided(again).chosen, plain.memory().planned_bytes
    assert kernels(again) - kernels(plain) == len(chosen.recomputed) > 0
    assert again.memory().planned_bytes < 0.65 * without
    assert chosen.peak_bytes <= 0.6 * without
    assert abs(again.memory().planned_bytes - chosen.peak_bytes) < 0.1 * without


def test_points_lie_between_time_and_memory(pair: Any) -> None:
    """Best first: those that fit, the fastest of them taken; each of the others says why not."""
    found = decided(pair[1])
    fits = [c for c in found.candidates if not c.refused]
    assert fits and found.candidates[0] == fits[0] == min(fits, key=lambda c: c.cost_us)
    assert fits[0].value == found.chosen
    assert all(c.why and c.why.value > c.why.limit for c in found.candidates if c.refused)
    ranked = sorted(found.candidates, key=lambda c: c.value.us)
    sizes = [c.value.peak_bytes for c in ranked]
    assert sizes == sorted(set(sizes), reverse=True)
    assert not ranked[0].value.recomputed


def test_a_copy_waits_for_the_adjoint_beside_which_it_is_read(pair: Any) -> None:
    """In every schedule, whatever places it."""
    _, again, _ = pair
    for policy in ("wavefront", "critical-path", "op-by-op", "weight-stationary", "gang"):
        c = again.with_options(rammer=RammerOptions(policy=policy, threads=2))
        (made,) = c.schedules()
        place = {o.name: n for n, o in enumerate(made.facts.operators)}
        copies = [b for b in c.program.kernel_calls if b.kernel_call.after is not None]
        assert len(copies) == len(decided(again).chosen.recomputed)
        for b in copies:
            after = b.kernel_call.after
            assert after is not None and made.order.before(place[b.name])[place[after.name]]


def test_nothing_merges_a_copy_or_folds_it_away(pair: Any) -> None:
    program = pair[1].program
    verify(program)
    assert remove_dead_code(share_common_subexpressions(program)) == program


def test_the_text_reads_back(pair: Any) -> None:
    program = pair[1].program
    text = print_program(program)
    assert " after " in text
    assert parse_program(text, program.constants).functions == program.functions


def test_the_interpreter_gives_the_same(pair: Any) -> None:
    plain, again, args = pair
    inputs = dict(zip(plain.model.inputs, flat(args), strict=True))
    one, other = (evaluate(c.program, inputs) for c in (plain, again))
    assert all(one[n].tobytes() == other[n].tobytes() for n in one)


@pytest.mark.exhaustive
def test_what_is_asked_for_in_megabytes_is_held() -> None:
    args = given_to(mlp, batch=8192)
    c = compiled(mlp, args, Options(budget_mb=10))
    assert decided(c).room_bytes == 10 << 20
    assert max(decided(c).chosen.peak_bytes, c.memory().planned_bytes) <= 10 << 20
    assert decided(c).chosen.recomputed


def test_a_kernel_of_which_no_tiling_is_legal_has_a_time_too(pair: Any) -> None:
    """It runs all the same: an infinite time would make all points equally slow."""
    program = pair[0].program
    first, *others = program.decisions.tilings
    refused = tuple(replace(c, refused="capacity") for c in first.candidates)
    tilings = (replace(first, candidates=refused), *others)
    without = replace(program, decisions=replace(program.decisions, tilings=tilings))
    found = Rematerialise(Options(share=0.0))(without).decisions.rematerialisation
    assert found == Rematerialise(Options(share=0.0))(program).decisions.rematerialisation
    assert found[0].chosen.recomputed


def test_nothing_is_asked_for_and_nothing_changes(pair: Any) -> None:
    assert not Options().is_set and not pair[0].program.decisions.rematerialisation
    assert "rematerialise" not in [s.name for s in pair[0].snapshots]


@pytest.mark.parametrize("wrong", [{"share": 1.5}, {"share": "half"}, {"budget_mb": -1}])
def test_an_option_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=f"rematerialisation.{next(iter(wrong))} is "):
        Options(**wrong)


@pytest.mark.exhaustive
def test_dropout_is_the_same_when_it_is_computed_again() -> None:
    def loss(weights: Any, x: Any, key: Any) -> Any:
        for n, w in enumerate(weights):
            x = dropout(enp.tanh(x @ w), 0.3, key, n)
        return (x * x).mean()

    args = (*given_to(loss, layers=6), np.array([7, 3]))
    again = compiled(loss, args, Options(share=0.0))
    assert decided(again).chosen.recomputed
    assert same_bits(compiled(loss, args, Options()), again, args)


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", [1, 2, 97])
def test_a_batch_that_only_the_run_knows(batch: int) -> None:
    weights, _ = given_to(mlp)
    x = np.random.default_rng(1).normal(size=(batch, 31)).astype(np.float32)
    types = (_types(weights), explorer.tensor("float32", "rows", 31))
    plain, again = (compiled(mlp, types, Options(share=s)) for s in (1.0, 0.0))
    assert decided(again).chosen.recomputed
    assert same_bits(plain, again, (weights, x))
    if batch == 97:
        assert again.memory({"rows": 97}).planned_bytes < plain.memory({"rows": 97}).planned_bytes


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_what_it_is(value: float, pair: Any) -> None:
    plain, again, (weights, x) = pair
    x = x.copy()
    x[3, 5] = value
    assert same_bits(plain, again, (weights, x))


@pytest.mark.few(1)
@pytest.mark.parametrize("schedule", ["device", "host", "unrolled"])
def test_the_body_of_a_loop_computes_again(schedule: str) -> None:
    """A batch in parts: each trip has a forward and a backward pass of its own."""

    def loss(weights: Any, parts: Any) -> Any:
        def one(total: Any, x: Any) -> Any:
            return total + explorer.grad(mlp)(weights, x)[0].sum(), None

        return explorer.scan(one, enp.zeros((), "float32"), parts)[0]

    weights, x = given_to(mlp, batch=64)
    parts = x.reshape(4, 16, 31)
    model = explorer.trace(loss)(_types(weights), _types(parts))
    grinder = GrinderOptions(schedule=schedule)
    one, other = (
        explorer.compile(model, options=explorer.Options(rematerialisation=again, grinder=grinder))
        for again in (Options(), Options(share=0.0))
    )
    assert decided(other).chosen.recomputed and decided(other).function != "main"
    assert other.memory().planned_bytes < one.memory().planned_bytes
    assert same_bits(one, other, (weights, parts))


def test_a_policy_of_storages_shares_them_too(pair: Any) -> None:
    plain, again, args = pair
    one, other = (
        c.with_options(memory=replace(c.options.memory, policy="storages")) for c in (plain, again)
    )
    assert same_bits(one, other, args)
    assert other.memory().planned_bytes < one.memory().planned_bytes


# Random programs.


def check_lines(lines: list[Statement], seed: int) -> None:
    draw = np.random.default_rng(seed)

    def loss(given: Any) -> Any:
        a, b = run(lines, *given)
        return (a * a + enp.sin(b)).sum()

    args = ([draw.normal(size=3), draw.normal(size=3)],)
    model = explorer.value_and_grad(loss)(_types(args[0]))
    one, other = (
        explorer.compile(
            model,
            options=explorer.Options(rematerialisation=again, rammer=RammerOptions(threads=2)),
            check=again.is_set,
        )
        for again in (Options(), Options(share=0.0))
    )
    assert agrees(one, other, args)


QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=examples(12, few=2), **QUIET)
@given(lines=statements(1), seed=st.integers(0, 2**32))
def test_gradients_of_random_programs_are_the_same(lines: list[Statement], seed: int) -> None:
    check_lines(lines, seed)


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@settings(max_examples=examples(500), **QUIET)
@given(lines=statements(2), seed=st.integers(0, 2**32))
def test_gradients_of_five_hundred_random_programs_are_the_same(
    lines: list[Statement], seed: int
) -> None:
    check_lines(lines, seed)
