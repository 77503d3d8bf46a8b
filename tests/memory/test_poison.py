"""A5.10: nothing that is still needed lies in bytes that were given away, by either policy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.memory import storages as storages_plan
from explorer.memory.plan import Buffers
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import Options
from explorer.runtime.executable import Executable
from tests.examples import examples
from tests.memory.poisoned import poisoned
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same
from tests.strategies.hand_programs import arena, programs, put, storages

QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
RANDOM, MANY = (
    settings(max_examples=examples(50, few=8), **QUIET),
    settings(max_examples=examples(500), **QUIET),
)
POLICY = pytest.mark.parametrize("policy", ["arena", "storages"])


def check(case, seed):
    model, program, extent = case
    inputs = inputs_of(program, extent, seed)
    executable = Executable(program, model.codes, DEVICE)
    wanted = evaluate(program, inputs)
    same(poisoned(executable, inputs, seed), wanted)
    memory = executable.memory({})
    assert memory.planned_bytes <= memory.naive_bytes
    for _ in range(2):
        same(executable.run(inputs), wanted)


@RANDOM
@given(programs(arena), st.integers(0, 99))
def test_a5_10_a_poisoned_run_with_the_arena_gives_what_numpy_gives(case, seed):
    check(case, seed)


@RANDOM
@given(programs(storages), st.integers(0, 99))
def test_a5_10_a_poisoned_run_with_storages_gives_what_numpy_gives(case, seed):
    check(case, seed)


@pytest.mark.exhaustive
@MANY
@given(programs(arena) | programs(storages), st.integers(0, 99))
def test_a5_10_five_hundred_poisoned_runs_give_what_numpy_gives(case, seed):
    check(case, seed)


def decided(policy, threads=2, **options):
    return Decisions(
        rammer=Options(threads=threads, brick_tasks=1),
        memory=MemoryOptions(policy=policy, **options),
    )


def chain(policy, count=6, **options):
    """Kernels one after the other, each reading the one before, some read again at the end."""
    model = Model()

    def write(b, x):
        made = [b.flip(x)]
        for _ in range(count):
            made.append(b.mix(made[-1], x))
        return [b.mix(made[-1], made[1])]

    return model, model.program((Var("x", vector(32)),), write, decided(policy, **options))


@POLICY
def test_a5_10_a_plan_that_frees_too_early_does_not_survive_the_poison(policy, monkeypatch):
    model, program = chain(policy)
    inputs = inputs_of(program, 32)
    wanted = evaluate(program, inputs)["y0"]
    good = poisoned(Executable(program, model.codes, DEVICE), inputs)["y0"]
    assert np.array_equal(good, wanted)
    honest = storages_plan._ends

    def too_early(steps):
        first, last = honest(steps)
        return first, {name: min(at, first[name] + 1) for name, at in last.items()}

    monkeypatch.setattr(storages_plan, "_ends", too_early)
    monkeypatch.setattr(Buffers, "conflicts", lambda b, order: lambda n: np.arange(len(b.all)) == n)
    bad = poisoned(Executable(program, model.codes, DEVICE), inputs)["y0"]
    assert not np.array_equal(bad, wanted)


@pytest.mark.few(2)
@POLICY
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a5_10_operators_that_do_not_need_each_other_wait_where_they_share_a_storage(
    policy, threads
):
    model = Model()

    def write(b, x):
        """Two chains side by side: with storages the second takes what the first gave back."""
        one, other = x, x
        for _ in range(5):
            one = b.flip(one)
        for _ in range(5):
            other = b.flip(b.mix(other, x))
        return [b.mix(one, other)]

    program = model.program((Var("x", vector(64)),), write, decided(policy, threads))
    inputs = inputs_of(program, 64)
    executable = Executable(program, model.codes, DEVICE)
    for seed in range(20):
        same(poisoned(executable, inputs, seed), evaluate(program, inputs))


@POLICY
def test_a5_10_a_kernel_that_updates_its_input_keeps_the_bytes_through_both_names(policy):
    model = Model()

    def write(b, x):
        base = b.flip(x)
        joined = put(b, base, b.flip(b.flip(x)))
        return [b.mix(b.flip(joined), joined)]

    program = model.program((Var("x", vector(16)),), write, decided(policy))
    inputs = inputs_of(program, 16)
    same(
        poisoned(Executable(program, model.codes, DEVICE), inputs),
        evaluate(program, inputs),
    )


@pytest.mark.few(3)
@pytest.mark.slow
@POLICY
@pytest.mark.parametrize("name", ["tiny_bert", "tiny_lstm", "tiny_while", "tiny_resnet18"])
def test_a5_10_a_poisoned_run_of_a_real_model_gives_what_numpy_gives(name, policy):
    c = explorer.compile(
        f"tests/data/{name}.onnx",
        options=explorer.Options(
            memory=MemoryOptions(policy=policy, in_place=policy == "storages"),
            rammer=Options(threads=2),
        ),
    )
    sizes = {symbol: min(hint, 5) for symbol, hint in c.hint.items()}
    inputs = c.random_inputs(sizes)
    found, wanted = poisoned(c.executable, inputs), explorer.evaluate(c.model.program, inputs)
    assert found.keys() == wanted.keys()
    for output, array in wanted.items():
        assert np.allclose(found[output], array, rtol=1e-3, atol=1e-4), output
