"""The storage plan: who shares what and why, with numbers, with symbols, and with bounds."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import explorer
from explorer.errors import BadOption, BoundError
from explorer.ir.affine import affine, var
from explorer.ir.calls import Branch, MatchCast, Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.dims import ShapeEnv, SymbolBound, evaluate_dim, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at, axes
from explorer.ir.types import Tensor
from explorer.memory.allocations import writes_over
from explorer.memory.plan import Options, aligned
from explorer.memory.rows import StorageLayout
from explorer.memory.storages import Allocation, ProgramPosition, plan_storages
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.runtime.executable import Executable
from tests.examples import examples
from tests.memory.poisoned import poisoned
from tests.memory.storage_programs import DEVICE, model, names
from tests.runtime.programs import Model, inputs_of
from tests.runtime.test_executable import same
from tests.strategies.hand_programs import put

N, M = symbol("n"), symbol("m")
FREE = ShapeEnv((SymbolBound("n"), SymbolBound("m")))
BOUNDED = ShapeEnv((SymbolBound("n", 0, 20), SymbolBound("m", 0, 5)))


def in_a_row(shapes, env=FREE, dtypes=(), **options):
    """A chain: each value is read by the call that makes the next one."""
    kinds = [*dtypes, *["float32"] * (len(shapes) - len(dtypes))]
    given = [Allocation(f"a{n}", Tensor(s, k)) for n, (s, k) in enumerate(zip(shapes, kinds))]
    last = len(given) - 1
    steps = [ProgramPosition((f"a{max(n - 1, 0)}", f"a{n}")) for n in range(last + 1)]
    return planned(given, [*steps, ProgramPosition((f"a{last}",))], env, **options)


def planned(given, steps, env=FREE, **options):
    return plan_storages(given, steps, env, Options(policy="storages", **options))


def test_a5_11_a_chain_of_four_equal_sizes_has_exactly_two_storages():
    for shape in ((8,), (N,), (2 * N, M)):
        plan = in_a_row([shape] * 4)
        assert [names(s) for s in plan.storages] == [["a0", "a2"], ["a1", "a3"]]


def test_a5_11_equal_symbolic_sizes_share_without_bounds_however_they_are_written():
    plan = in_a_row([(N, 4), (M,), (2, 2 * N), (M,), (4 * N,)])
    assert [names(s) for s in plan.storages] == [["a0", "a2", "a4"], ["a1", "a3"]]
    reasons = [t.reason for t in plan.storages[0].tokens]
    assert reasons[1] == (
        "s0 is free since a0 died at 1; 4*2*2*n = 16*n equals its 16*n in every binding"
    )
    assert [t.taken for t in plan.storages[0].tokens] == ["fresh", "reused", "reused"]


def test_sizes_that_may_differ_share_nothing_and_the_plan_says_why():
    plan = in_a_row([(N,), (8,), (M,), (N + 1,)])
    assert len(plan.storages) == 4
    assert plan.tokens[3].reason == "4*(n + 1) = 4*n + 4, not provably equal to s0 of 4*n bytes"
    assert plan.tokens[0].reason == "no buffer of its dtype and memory is free"


def test_a5_11_bounded_bytes_are_those_of_the_formula_and_no_binding_changes_them():
    plan = in_a_row([(N, M), (N, 2), (N, M)], BOUNDED)
    assert [s.bytes for s in plan.storages] == [4 * 20 * 5, 4 * 20 * 2]
    assert plan.bounded_bytes == 400 + 160
    layout = StorageLayout(plan)
    assert {layout.offsets({"n": n, "m": m}) for n in (0, 1, 20) for m in (0, 5)} == {
        (0, 448, 448 + 192)
    }
    assert in_a_row([(N, M)], BOUNDED, bounds=False).planned == 4 * N * M


def test_a5_12_a_lower_bound_alone_never_makes_a_plan_static():
    env = ShapeEnv((SymbolBound("n", 16), SymbolBound("m", 3)))
    plan = in_a_row([(N, M), (N,), (M, N)], env)
    assert plan.bounded_bytes is None and not any(s.static for s in plan.storages)
    assert plan.unbounded == ("m", "n") and plan.bounded == ()


def test_with_ordered_a_provably_larger_storage_is_taken_and_a_smaller_one_grows():
    plan = in_a_row([(4 * N,), (8,), (N,)], ordered=True)
    assert [names(s) for s in plan.storages] == [["a0", "a2"], ["a1"]]
    assert plan.tokens[1].reason == (
        "s0 is free since a0 died at 1; 4*n, at most its 16*n in every binding"
    )
    plan = in_a_row([(N,), (8,), (4 * N + 1,), (8,), (M,)], ordered=True)
    assert plan.storages[0].bytes == 16 * N + 4 and names(plan.storages[0]) == ["a0", "a2"]
    assert [t.taken for t in plan.storages[0].tokens] == ["fresh", "grown"]
    assert names(plan.storages[2]) == ["a4"]  # n against m: nothing is proved


def test_a_number_takes_a_storage_from_a_sixteenth_to_sixteen_times_its_size():
    def taken(first, second):
        """What the value of `second` floats does where a storage of `first` floats is free."""
        plan = in_a_row([(first,), (1_000_000,), (second,)])
        return plan.tokens and next(t for t in plan.tokens if t.name == "a2").taken

    assert taken(160, 10) == "reused" and taken(161, 10) == "fresh"
    assert taken(10, 160) == "grown" and taken(10, 161) == "fresh"


def test_of_several_free_storages_the_smallest_that_fits_is_taken_else_the_largest_grown():
    def plan(third):
        sizes = {"a": 40, "b": 20, "c": third}
        given = [Allocation(n, Tensor((k,), "float32")) for n, k in sizes.items()]
        return planned(given, [ProgramPosition(("a", "b")), ProgramPosition(("c",))])

    assert names(plan(15).storages[1]) == ["b", "c"]
    assert names(plan(30).storages[0]) == ["a", "c"]
    assert names(plan(50).storages[0]) == ["a", "c"] and plan(50).storages[0].bytes == 200


def test_dtypes_are_kept_apart():
    plan = in_a_row([(8,)] * 4, dtypes=["float32", "int64", "int32", "float32"])
    assert [names(s) for s in plan.storages] == [["a0", "a3"], ["a1"], ["a2"]]
    assert [s.dtype for s in plan.storages] == ["float32", "int64", "int32"]


def test_an_output_is_planned_after_what_dies_in_its_own_call():
    plan = in_a_row([(8,), (8,)])
    assert len(plan.storages) == 2  # a0 is still read while a1 is written


def test_in_place_an_output_takes_the_bytes_of_an_input_that_dies():
    given = [Allocation(f"a{n}", Tensor((N,), "float32")) for n in range(3)]
    over = [
        ProgramPosition(("a0",)),
        ProgramPosition(("a0", "a1"), (("a1", "a0", ""),)),
        ProgramPosition(("a1", "a2"), (("a2", "a1", ""),)),
    ]
    plan = planned(given, over)
    assert [names(s) for s in plan.storages] == [["a0", "a1", "a2"]]
    assert plan.tokens[1].reason == "in place of a0, which dies in the call that writes it"
    still_read = planned(given, [*over, ProgramPosition(("a0",))])
    assert [names(s) for s in still_read.storages] == [["a0"], ["a1", "a2"]]
    assert still_read.tokens[1].reason.endswith("not in place of a0: it is used later")


def test_in_place_only_where_an_element_is_read_before_it_is_written_and_by_no_other_task():
    def kernel(expr, reduce=(), inputs=("x", "b"), shape=(8,), **more):
        over = axes("i", shape)
        specs = tuple(TensorSpec(t, s) for t, s in (("x", (8,)), ("b", (8,)), ("y", shape)))
        compute = Compute("y", over, expr, reduce, "sum" if reduce else None)
        return Kernel("k", specs, (compute,), inputs, ("y",), **more)

    i = axes("i", (8,))
    same, turned = at("x", i), Read("x", (affine({"i0": -1}, 7),))
    assert writes_over(kernel(apply("add", same, at("b", i))), "y", "x") == ""
    assert writes_over(kernel(apply("add", same, apply("exp", same))), "y", "x") == ""
    for refused, why in (
        (kernel(apply("add", same, turned)), "another index"),
        (kernel(Read("x", (var("r"),)), (Axis("r", 8),)), "other elements are read"),
        (kernel(same, updates=(("y", "b"),)), "the call may not"),
        (kernel(same, constants=frozenset({"x"})), "the call may not"),
        (kernel(Read("x", (affine({}, 0),)), shape=(4,)), "elsewhere"),
    ):
        assert why in writes_over(refused, "y", "x")


def test_what_is_kept_shares_nothing_before_or_after():
    given = [
        Allocation(f"a{n}", Tensor((8,), "float32"), pin_reason="why" * (n == 1)) for n in range(4)
    ]
    plan = planned(given, [ProgramPosition((f"a{n}",)) for n in range(4)])
    assert [names(s) for s in plan.storages] == [["a0", "a2", "a3"], ["a1"]]
    assert plan.storages[1].pin_reason == "why"


def test_without_sharing_every_value_has_a_storage():
    plan = in_a_row([(8,)] * 5, share=False)
    assert len(plan.storages) == 5 and plan.planned == plan.naive == 160


DIMS = st.sampled_from([1, 2, 5, N, M, 2 * N, N + 1, N * M])


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(DIMS, DIMS), min_size=1, max_size=12),
    st.sampled_from([FREE, BOUNDED]),
    st.booleans(),
    st.data(),
)
def test_a5_11_planned_is_never_above_naive_and_turns_never_overlap(shapes, env, ordered, data):
    given = [Allocation(f"a{n}", Tensor(s, "float32")) for n, s in enumerate(shapes)]
    reads = [
        tuple(f"a{k}" for k in data.draw(st.sets(st.integers(0, n), max_size=3)))
        for n in range(len(given))
    ]
    steps = [ProgramPosition((*before, a.name)) for before, a in zip(reads, given)]
    plan = planned(given, steps, env, ordered=ordered)
    for storage in plan.storages:
        for one, other in zip(storage.tokens, storage.tokens[1:]):
            assert one.last < other.first
        assert len({t.type.dtype for t in storage.tokens}) == 1
    for n, m in ((1, 1), (20, 5), (7, 3)):
        sizes = {"n": n, "m": m}
        rooms = {t.name: evaluate_dim(t.upper_bytes, sizes) for t in plan.tokens}
        offsets = StorageLayout(plan).offsets(sizes)
        assert offsets[-1] <= sum(map(aligned, rooms.values()))
        for storage in plan.storages:
            room = evaluate_dim(storage.bytes, sizes)
            assert all(evaluate_dim(t.bytes, sizes) <= room for t in storage.tokens)


def test_a_plan_is_evaluated_in_microseconds():
    plan = in_a_row([(N, M + k) for k in range(1, 60)])
    layout = StorageLayout(plan)
    sizes = {"n": 77, "m": 13}
    assert layout.offsets(sizes)[-1] == sum(aligned(4 * 77 * (13 + k)) for k in range(1, 60))
    begin = time.process_time()
    for _ in range(1000):
        layout.offsets(sizes)
    assert time.process_time() - begin < 0.5  # 59 storages, 1000 times; 0.02 where it was written


@pytest.mark.exhaustive
def test_a_plan_of_20_000_values_is_made_in_a_moment():
    begin = time.process_time()
    plan = in_a_row([(N, 1 + k % 7) for k in range(20_000)])
    assert time.process_time() - begin < 20.0  # 2.0 where it was written
    assert len(plan.storages) == 7


@pytest.mark.exhaustive
def test_thousands_of_sizes_that_differ_are_not_compared_with_each_other():
    begin = time.process_time()
    plan = in_a_row([(N + k,) for k in range(3000)])
    assert len(plan.storages) == 3000
    assert time.process_time() - begin < 20.0  # 2.7 where it was written


def small(tmp_path, bounds=None):
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Softmax", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["y"]),
    ]
    weights = {"w": np.eye(8, dtype=np.float32)}
    return model(tmp_path, nodes, {"x": ["n", 8]}, ["y"], weights, bounds=bounds)


def compiled(tmp_path, bounds=None, until="emitted", **options):
    chosen = explorer.Options(memory=Options(policy="storages", **options))
    return explorer.compile(small(tmp_path, bounds), options=chosen, until=until)


def test_a5_12_a_size_above_its_bound_is_refused_by_name_before_any_kernel(tmp_path):
    c = compiled(tmp_path, {"n": (1, 4)})
    with counters.delta() as did, pytest.raises(BoundError, match=r"n is 5 .* 1 \.\. 4"):
        c.run({"x": np.ones((5, 8), np.float32)})
    assert did.runs == did.arenas_made == did.walls_planned == 0
    with pytest.raises(BoundError, match="n is 5 and memory is planned for at most 4"):
        c.memory({"n": 5})
    ordered = compiled(tmp_path, {"n": (2, None)}, "planned", ordered=True)
    with pytest.raises(BoundError, match="n is 1 and memory is planned for at least 2"):
        ordered.memory({"n": 1})


@pytest.mark.parametrize("outputs", [False, True])
@pytest.mark.parametrize("bounds", [None, {"n": (0, 9)}])
def test_a_run_with_storages_gives_what_a_run_with_the_arena_gives(tmp_path, bounds, outputs):
    c = compiled(tmp_path, bounds, outputs=outputs)
    plain = explorer.compile(small(tmp_path, bounds))
    for n in (1, 3, 9, 3) if bounds is None else (1, 0, 9, 3):
        x = np.random.default_rng(n).standard_normal((n, 8), np.float32)
        assert np.array_equal(c.run({"x": x})["y"], plain.run({"x": x})["y"])


def test_memory_tells_storages_formulas_and_reasons(tmp_path):
    c = compiled(tmp_path, until="planned")
    found = c.memory({"n": 10})
    assert found.policy == "storages" and found.bounded_bytes is None
    assert [(s.formula, s.bytes) for s in found.storages] == [("32*n", 320)] * len(found.storages)
    assert found.planned_formula == str(32 * len(found.storages) * N)
    rows = [r for r in found.buffers if not r.alias_of]
    assert all(r.reason and r.taken and r.storage for r in rows)
    bounded = compiled(tmp_path, {"n": (1, 64)}, "planned")
    assert bounded.memory({"n": 1}).planned_bytes == bounded.memory({"n": 64}).bounded_bytes
    assert bounded.memory({"n": 1}).bounds == ("n <= 64",) and found.unbounded == ("n",)
    assert found.result_bytes == 320 and bounded.memory({"n": 1}).result_bytes == 32


def vector(*shape):
    return Tensor(shape, "int64")


def alias_classes():
    """A view of a match_cast of a view, what a call passes on, an update, a branch's arm."""
    made = Model()

    def function(name, write):
        return made.function(name, (made.var(vector(16)),), write)

    then = function("then", lambda b, x: [b.flip(b.flip(x))])
    orelse = function("else", lambda b, x: [b.flip(x)])
    twice = function("twice", lambda b, x: [b.flip(x), x])

    def write(b, x):
        view = b.view(b.flip(x), (4, 4))
        cast = b.bind(MatchCast(view), vector(4, 4))
        inside, passed_on = b.call(twice, [b.view(cast, (16,))], vector(16), vector(16))
        joined = put(b, b.flip(inside), passed_on)
        out = b.branch(b.test(joined), then, orelse, [joined], vector(16))
        return [b.flip(b.mix(out, inside))]

    program = made.program((Var("x", vector(16)),), write)
    program = replace(program, decisions=Decisions(memory=Options(policy="storages")))
    return program, Executable(program, made.codes, DEVICE)


def test_every_alias_has_one_owner_that_lives_as_long_as_all_of_them():
    program, executable = alias_classes()
    plan, uses = executable.planner.storages, executable.planner.uses
    owners = {alias: t.name for t in plan.tokens for alias in t.aliases}
    assert not owners.keys() & {t.name for t in plan.tokens}
    flip, view, cast, again = (b.var.name for b in program.main.body[:4])
    assert [owners[v] for v in (view, cast, again)] == [flip] * 3
    update = next(b for b in program.kernel_calls if b.expr.kernel.updates)
    assert owners[update.var.name] == update.expr.args[0].name
    branch = next(b.var.name for b in program.main.body if isinstance(b.expr, Branch))
    assert sorted(v.split("/")[1] for v, owner in owners.items() if owner == branch) == [
        "else",
        "then",
    ]
    for token in plan.tokens:
        used = [p for p, roots in enumerate(uses.used) if token.name in roots]
        assert (token.first, token.last) == (used[0], used[-1])


@pytest.mark.parametrize("seed", range(8))
def test_aliases_survive_the_poison_either_way_that_the_branch_goes(seed):
    program, executable = alias_classes()
    inputs = inputs_of(program, 16, seed)
    same(poisoned(executable, inputs, seed), evaluate(program, inputs))


def test_an_unknown_policy_is_refused():
    with pytest.raises(BadOption, match="'heap'"):
        Options(policy="heap")


def test_the_symbolic_plan_is_made_once_for_all_bindings(tmp_path):
    executable = compiled(tmp_path, until="planned").executable
    first = executable.planner.storages
    one, other = executable.memory({"n": 3}), executable.memory({"n": 4})
    assert executable.planner.storages is first
    assert [r.storage for r in one.buffers] == [r.storage for r in other.buffers]


@pytest.mark.parametrize("outputs", [False, True])
def test_regions_between_run_time_shapes_have_storages_of_their_own(tmp_path, outputs):
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("NonZero", ["m"], ["i"]),
        helper.make_node("Transpose", ["i"], ["j"], perm=[1, 0]),
        helper.make_node("GatherND", ["a", "j"], ["g"]),
        helper.make_node("Softmax", ["g"], ["s"]),
        helper.make_node("Mul", ["s", "g"], ["t"]),
        helper.make_node("ReduceSum", ["t"], ["y"], keepdims=0),
    ]
    loaded = model(tmp_path, nodes, {"x": ["n", 8], "m": ["n", 8]}, ["y", "t"])
    options = explorer.Options(memory=Options(policy="storages", outputs=outputs))
    c = explorer.compile(loaded, options=options)
    for n in (1, 9, 5, 9):
        rng = np.random.default_rng(n)
        x = rng.standard_normal((n, 8), np.float32)
        inputs = {"x": x, "m": (rng.random((n, 8)) > 0.5).astype(np.float32)}
        found, wanted = c.run(inputs), explorer.evaluate(c.model.program, inputs)
        assert all(np.allclose(found[k], wanted[k], 1e-4, 1e-5) for k in wanted)
    assert {r.formula for r in c.memory(c.hint).buffers} >= {"32*n"}


@pytest.mark.parametrize("axis", [0, 1])
def test_a_region_has_the_symbols_of_a_value_that_no_bare_dim_tells(tmp_path, axis):
    """The reshape's region takes a value of 2*n by m elements, and no other."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Concat", ["x", "e"], ["c"], axis=axis),
        helper.make_node("Reshape", ["c", "to"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    kinds = {"to": TensorProto.INT64}
    loaded = model(tmp_path, nodes, {"x": ["n", "m"], "to": [2]}, ["y"], dtypes=kinds)
    c = explorer.compile(loaded, options=explorer.Options(memory=Options(policy="storages")))
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    found = c.run({"x": x, "to": np.array([6, 4])})["y"]
    assert np.allclose(found, np.maximum(np.concatenate([x, np.exp(x)], axis), 0).reshape(6, 4))
