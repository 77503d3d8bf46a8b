"""A6.1 to A6.8: what TVM's own tests of its memory planner expect, from the outside."""

from itertools import pairwise

import numpy as np
import pytest
import sympy
from onnx import TensorProto, helper

import explorer
from explorer.errors import BoundError
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Apply, Compute, Kernel, TensorSpec, at, axes
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor
from explorer.memory.plan import Options
from explorer.ops.interpreter.evaluate import evaluate
from explorer.runtime.executable import Executable
from tests.memory.poisoned import poisoned
from tests.memory.storage_programs import (
    DEVICE,
    chain,
    kernels_of,
    model,
    names,
    shared,
    storages_of,
)
from tests.runtime.programs import Model, inputs_of, vector
from tests.runtime.test_executable import same

N, M = symbol("n"), symbol("m")


def sizes_of(plan):
    return [s.bytes for s in shared(plan)]


def elementwise(shape, count, bounds):
    """`count` exponentials in a chain over a tensor of any symbolic shape."""
    over = axes("i", shape)
    specs = (TensorSpec("x", shape), TensorSpec("y", shape))
    compute = Compute("y", over, Apply("exp", (at("x", over),)))
    kernel = Kernel("exp", specs, (compute,), ("x",), ("y",))
    kind = Tensor(shape, "float32")
    values = [Var(f"v{n}", kind) for n in range(count + 1)]
    body = tuple(Binding((new,), KernelCall(kernel, (old,))) for old, new in pairwise(values))
    heads = (Var("sizes", Tensor((N, M), "float32")), values[0])
    main = Function("main", heads, body, (values[-1],))
    return Program((main,), env=ShapeEnv(bounds))


def test_a6_01_four_intermediates_take_turns_in_32_and_40_bytes(tmp_path):
    plan = storages_of(kernels_of(chain(tmp_path, (2, 4))))
    assert sizes_of(plan) == [32, 40] and all(s.static for s in plan.storages)
    assert [names(s) for s in plan.storages] == [["a0", "a2"], ["a1", "a3"]]
    assert [(t.name, t.bytes) for t in plan.results] == [("y", 40)]
    assert (plan.planned + plan.result_bytes, plan.naive + plan.result_bytes) == (112, 176)


def test_a6_01_a_view_belongs_to_the_value_whose_bytes_it_is(tmp_path):
    plan = storages_of(kernels_of(chain(tmp_path, (2, 4))))
    (first, *_) = plan.tokens
    assert (first.name, first.aliases) == ("a0", ("v",)) and (first.first, first.last) == (1, 2)


def test_a6_02_a_bound_makes_the_same_storages_and_tensors_keep_their_shapes(tmp_path):
    plan = storages_of(kernels_of(chain(tmp_path, (2, "n"), {"n": (0, 4)})))
    assert sizes_of(plan) == [32, 40] and plan.bounded_bytes == 72 and plan.bounded == ("n",)
    assert [names(s) for s in plan.storages] == [["a0", "a2"], ["a1", "a3"]]
    assert [str(t.type) for t in plan.tokens] == [
        "float32[2, n]",
        "float32[2*n]",
        "float32[2*n]",
        "float32[2*n + 2]",
    ]


@pytest.mark.parametrize("bound", [[4], [0, 4], (0, [4]), (0, 4.0), "4", (1, 2, 3)])
def test_a6_02_a_bound_that_is_no_number_and_no_pair_is_refused_by_name(tmp_path, bound):
    with pytest.raises(BoundError, match="'n'"):
        chain(tmp_path, (2, "n"), {"n": bound})


def test_a6_03_a_lower_bound_alone_leaves_three_symbolic_storages(tmp_path):
    plan = storages_of(kernels_of(chain(tmp_path, (2, "n"), {"n": (2, None)})))
    assert sizes_of(plan) == [8 * N, 8 * N, sympy.expand(4 * (2 * N + 2))]
    assert not any(s.static for s in plan.storages)
    assert plan.bounded_bytes is None and plan.unbounded == ("n",) and plan.bounded == ()


def test_a6_04_dims_are_bounded_one_by_one_to_8000_bytes():
    shape = (N, M, sympy.Max(N - M, 1))
    bounds = (SymbolBound("m", 0, 5), SymbolBound("n", 0, 20))
    plan = storages_of(elementwise(shape, 3, bounds))
    assert sizes_of(plan) == [8000, 8000] and plan.bounded_bytes == 16000
    assert [names(s) for s in plan.storages] == [["v1"], ["v2"]]


def test_a6_05_one_bound_of_two_leaves_80_m_bytes_and_a_planned_output_has_its_own():
    program = elementwise((N, M), 4, (SymbolBound("m"), SymbolBound("n", 0, 20)))
    plan = storages_of(program, outputs=True)
    assert [s.bytes for s in plan.storages] == [80 * M] * 3
    assert [names(s) for s in plan.storages] == [["v1", "v3"], ["v2"], ["v4"]]
    assert [bool(s.pin_reason) for s in plan.storages] == [False, False, True]
    assert plan.unbounded == ("m",) and plan.bounded == ("n",) and plan.results == ()
    without = storages_of(program)
    assert sizes_of(without) == [80 * M] * 2 and [t.name for t in without.results] == ["v4"]


@pytest.mark.parametrize("dtype, storages", [("INT32", 2), ("FLOAT", 1)])
def test_a6_06_a_storage_is_taken_again_by_its_own_dtype_only(tmp_path, dtype, storages):
    """`a` dies in a sum that ends in one element, then `b` of as many bytes comes."""
    kind = getattr(TensorProto, dtype)
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("ReduceMax", ["a"], ["y"], keepdims=0),
        helper.make_node("Abs", ["i"], ["b"]),
        helper.make_node("ReduceMax", ["b"], ["z"], keepdims=0),
    ]
    inputs = {"x": [2, 4], "i": [2, 4]}
    loaded = model(tmp_path, nodes, inputs, ["y", "z"], dtypes={"i": kind, "z": kind})
    plan = storages_of(kernels_of(loaded))
    assert sizes_of(plan) == [32] * storages
    assert plan.naive == 64 and len(plan.tokens) == 2


def branching(policy="storages"):
    """A condition, a value of each arm, and values local to each arm."""
    made = Model()
    arms = []
    for name in ("then", "else"):
        given = (made.var(vector(16)),)
        arms.append(made.function(name, given, lambda b, x: [b.flip(b.flip(b.flip(b.flip(x))))]))

    def write(b, x):
        before = b.flip(x)
        out = b.branch(b.test(before), *arms, [before], vector(16))
        return [b.mix(b.flip(out), x)]

    decided = Decisions(memory=Options(policy=policy))
    return made, made.program((Var("x", vector(16)),), write, decided)


def test_a6_07_conditions_branch_values_and_values_of_other_blocks_share_nothing():
    made, program = branching()
    plan = Executable(program, made.codes, DEVICE).planner.storages
    kept = {s.pin_reason for s in plan.storages if s.pin_reason}
    assert {"decides a branch", "the value of a branch"} <= kept
    assert any(why.startswith("used in ") for why in kept)  # `before`, which the arms read
    assert all(len(s.tokens) == 1 for s in plan.storages if s.pin_reason)


def test_a6_07_two_branches_do_not_share_a_storage_of_one_branch():
    made, program = branching()
    plan = Executable(program, made.codes, DEVICE).planner.storages
    for storage in plan.storages:
        assert len({tuple(token.name.split("/")[:-1]) for token in storage.tokens}) == 1
    local = [s for s in shared(plan) if s.block]
    assert [s.block.split("/")[-1] for s in local] == ["then", "then", "else", "else"]


@pytest.mark.parametrize("policy", ["arena", "storages"])
@pytest.mark.parametrize("seed", range(6))
def test_a6_07_a_branch_gives_what_numpy_gives_whichever_way_it_goes(policy, seed):
    made, program = branching(policy)
    inputs = inputs_of(program, 16, seed)
    executable = Executable(program, made.codes, DEVICE)
    wanted = evaluate(program, inputs)
    same(poisoned(executable, inputs, seed), wanted)
    same(executable.run(inputs), wanted)


def test_a6_08_a_view_that_is_read_later_keeps_its_bytes():
    made = Model()

    def write(b, x):
        a = b.flip(x)
        view = b.view(a, (4, 4))
        other = b.flip(x)
        return [b.mix(b.view(view, (16,)), other)]

    program = made.program((Var("x", vector(16)),), write)
    program = Program(
        program.functions, program.constants, decisions=Decisions(memory=Options(policy="storages"))
    )
    executable = Executable(program, made.codes, DEVICE)
    assert sizes_of(executable.planner.storages) == [128, 128]
    inputs = inputs_of(program, 16)
    same(poisoned(executable, inputs), evaluate(program, inputs))


def test_a6_08_the_report_of_a_binding_adds_up(tmp_path):
    loaded = chain(tmp_path, (2, "n"), {"n": (0, 4)})
    c = explorer.compile(
        loaded, options=explorer.Options(memory=Options(policy="storages")), until="planned"
    )
    found = c.memory({"n": 3})
    assert found.policy == "storages" and found.planned_bytes <= found.naive_bytes
    assert found.planned_bytes == sum(-(-s.bytes // 64) * 64 for s in found.storages)
    assert np.all([r.storage in {s.name for s in found.storages} for r in found.buffers])
