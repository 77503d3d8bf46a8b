"""FuseOps keeps every value, and gives a reason wherever two operators stay apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer.ir.calls import FunctionCall, KernelCall, MatchCast, ShapeOf, Var
from explorer.ir.dims import symbol
from explorer.ir.program import Program
from explorer.ir.text.program_text import print_program
from explorer.ir.types import ShapeType
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.passes.random_inputs import random_inputs
from explorer.passes.validate import difference
from explorer.relax import FuseOps
from explorer.relax import Options as RelaxOptions
from explorer.relax.fusion import Limits, plan
from explorer.relax.fusion_graph import FusionPlan
from explorer.relax.pattern_kinds import PatternKind
from explorer.welder import Options as WelderOptions
from tests.examples import examples
from tests.relax.kernel_programs import Body, model, n, tensor
from tests.strategies.kernel_programs import ROW, X, programs

DATA = Path(__file__).parent.parent / "data"
m = symbol("m")
random = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray:
    return random.integers(-3, 4, shape).astype(np.float32)


def fused(program: Program, **options: object) -> tuple[Program, FusionPlan]:
    after = FuseOps(**options)(program)  # type: ignore[arg-type]
    verify(after)
    (found,) = after.decisions.fusion
    assert isinstance(found, FusionPlan)
    return after, found


def groups(program: Program) -> list[tuple[str, ...]]:
    return [g.members for g in fused(program)[1].groups if len(g.members) > 1]


def same(before: Program, after: Program, **inputs: np.ndarray) -> None:
    want, got = evaluate(before, inputs), evaluate(after, inputs)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-4)


def run(program: Program, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of compiled code, fused."""
    options = explorer.Options(relax=RelaxOptions(fuse=True))
    found = explorer.compile(model(program), options=options)
    return dict(found.run(inputs))


def reason(program: Program, name: str) -> str:
    return next(s.reason for s in fused(program)[1].refusals if s.node == name)


# Which groups.


def test_a6_12_add_exp_squeeze_is_one_group_with_two_parameters() -> None:
    body = Body()
    x = Var("x", tensor(1, n, m))
    one = body.constant(np.float32(1).reshape(()), "one")
    added = body.zip("add", x, one)
    y = body.view(body.map("exp", added), n, m)
    program = body.program([x], y)
    after, found = fused(program)
    assert [g.members for g in found.groups] == [("v0", "v1", "v2")]
    assert len(after.main.body) == 1
    (function,) = found.functions
    assert [p.name for p in function.params] == ["x", "one"]
    for shape in [(1, 3, 5), (1, 1, 1), (1, 7, 0), (1, 2, 64)]:
        value = numbers(*shape)
        same(program, after, x=value)
        np.testing.assert_allclose(run(program, x=value)["v2"], np.exp(value + 1)[0], rtol=1e-5)


def test_a6_13_a_group_that_reads_no_tensor_takes_the_shape_alone() -> None:
    body = Body()
    s = Var("s", ShapeType((n,)))
    square = body.triu(body.full(n, n, value=2.0))
    y = body.broadcast(square)
    program = body.program([s], y)
    after, found = fused(program)
    assert [g.members for g in found.groups] == [("v0", "v1", "v2")]
    (function,) = found.functions
    assert [p.type for p in function.params] == [ShapeType((n,))]
    for extent in (0, 1, 5, 13):
        shape = np.array([extent])
        same(program, after, s=shape)
        got = run(program, s=shape)["v2"]
        np.testing.assert_array_equal(got, np.triu(np.full((extent, extent), 2.0))[None, None])


def test_a6_14_a_match_cast_is_not_fused_through() -> None:
    body = Body()
    first = body.map("abs", X)
    cast = body.match_cast(first, tensor(n, m))
    y = body.map("sqrt", cast)
    program = body.program([X], y)
    after, found = fused(program)
    assert after.main == program.main
    assert "checked at its position" in found.refusals[0].reason
    assert found.graph.nodes[1].edges[0].target == 2


def test_a_kernel_after_a_product_joins_it_and_a_second_product_does_not() -> None:
    body = Body()
    h = body.zip("add", body.matmul(X, X), ROW)
    y = body.matmul(body.map("tanh", h), X)
    program = body.program([X, ROW], y)
    assert groups(program) == [("v0", "v1", "v2")]
    assert "v3, a sum of products" in reason(program, "v2")
    after, found = fused(program)
    assert found.group_of("v1").anchor == "v0"
    same(program, after, x=numbers(5, 5), r=numbers(5))


def test_a_product_that_its_reader_broadcasts_is_stored() -> None:
    body = Body()
    sums = body.mean(X)
    y = body.zip("add", X, sums)
    program = body.program([X], y)
    assert groups(program) == []
    assert "a subset of the store's indices" in reason(program, sums.name)


def test_element_wise_kernels_join_a_reduction_and_none_starts_at_one() -> None:
    body = Body()
    total = body.total(body.map("abs", X))
    y = body.map("sqrt", total)
    program = body.program([X], y)
    assert groups(program) == [("v0", "v1")]
    assert reason(program, "v1") == "a reduction ends a group and never starts one"


def test_a_diamond_is_one_group() -> None:
    body = Body()
    a = body.map("abs", X)
    y = body.zip("mul", body.map("sqrt", a), body.transpose(a))
    program = body.program([X], y)
    assert groups(program) == [("v0", "v1", "v2", "v3")]
    same(program, fused(program)[0], x=numbers(4, 4))
    value = numbers(6, 6)
    want = np.sqrt(np.abs(value)) * np.abs(value).T
    np.testing.assert_allclose(run(program, x=value)["v3"], want, rtol=1e-5)


def test_two_branches_of_products_have_one_anchor() -> None:
    body = Body()
    y = body.zip("add", body.matmul(X, X), body.matmul(X, body.map("neg", X)))
    program = body.program([X], y)
    found = fused(program)[1]
    assert [g.members for g in found.groups if len(g.members) > 1] == [("v0", "v3")]
    assert "v3 is OutEWiseFusable" in reason(program, "v2")


def test_what_is_read_past_its_border_is_stored() -> None:
    body = Body()
    y = body.pad(body.map("abs", X))
    program = body.program([X], y)
    assert groups(program) == []
    assert "past its border" in reason(program, "v0")


def test_a5_08_nothing_is_fused_through_an_output_or_a_library_call() -> None:
    body = Body()
    kept = body.map("abs", X)
    called = body.library(body.map("neg", kept))
    y = body.map("sqrt", body.map("abs", called))
    program = body.program([X], kept, y)
    assert groups(program) == [("v3", "v4")]
    assert reason(program, "v0") == "it is an output, so it is stored"
    assert "no loops" in reason(program, "v1")


def test_a_group_never_grows_beyond_its_limits() -> None:
    body = Body()
    value = X
    for _ in range(9):
        value = body.map("neg", value)
    program = body.program([X], value)
    _, found = fused(program, limits=Limits(nodes=4))
    assert max(len(g.members) for g in found.groups) <= 4
    assert any("at most 4" in s.reason for s in found.refusals)


def test_a_long_chain_is_few_kernels_that_run() -> None:
    body = Body()
    value = X
    for _ in range(250):
        value = body.map("neg", value)
    program = body.program([X], value)
    after, found = fused(program)
    assert [len(g.members) for g in found.groups] == [200, 50]
    assert any("nest 201 deep" in s.reason for s in found.steps)
    x = numbers(3, 3)
    same(program, after, x=x)
    np.testing.assert_array_equal(run(program, x=x)["v249"], x)


def test_a_product_whose_left_operand_is_walked_by_symbolic_steps_has_code() -> None:
    body = Body()
    y = body.map("tanh", body.matmul(body.transpose(X), X))
    x = numbers(4, 4)
    got = run(body.program([X], y), x=x)["v2"]
    np.testing.assert_allclose(got, np.tanh(x.T @ x), rtol=1e-5)


# Shapes.


def test_a5_08_a_group_that_its_parameters_do_not_explain_takes_a_shape() -> None:
    body = Body()
    twice = Var("x", tensor(2 * n))
    length = Var("s", tensor(n))
    y = body.zip("add", body.map("exp", body.map("neg", twice)), twice)
    program = body.program([twice, length], y)
    after, found = fused(program)
    (function,) = found.functions
    assert [str(p.type) if p.name == "x" else p.type for p in function.params] == [
        "float32[2*n]",
        ShapeType((n,)),
    ]
    for extent in (0, 1, 2, 7, 32):
        x, s = numbers(2 * extent), numbers(extent)
        same(program, after, x=x, s=s)
        np.testing.assert_allclose(run(program, x=x, s=s)["v2"], np.exp(-x) + x, rtol=1e-5)


def test_a5_08_a_private_function_is_really_given_the_shape() -> None:
    body = Body()
    twice, length = Var("x", tensor(2 * n)), Var("s", tensor(n))
    y = body.map("exp", body.map("neg", twice))
    program = body.program([twice, length], y)
    after = FuseOps(merge=False)(program)
    verify(after)
    (private,) = after.functions[1:]
    shape, call = after.main.body
    assert isinstance(shape.expr, ShapeOf) and shape.expr.dims == (n,)
    assert call.expr == FunctionCall("fused_v1", (twice, shape.var))
    assert private.params == (twice, shape.var)
    assert "def fused_v1" in print_program(after)
    compiled = explorer.compile(model(after))
    for extent in (0, 1, 5, 8):
        x, s = numbers(2 * extent), numbers(extent)
        same(program, after, x=x, s=s)
        np.testing.assert_allclose(compiled.run({"x": x, "s": s})["v1"], np.exp(-x), rtol=1e-5)


def test_a5_09_no_use_of_a_symbol_moves_above_its_definition() -> None:
    body = Body()
    early = body.map("abs", X)
    cast = body.match_cast(body.library(X), tensor(m, n))
    filled = body.full(m, n)  # reads nothing, and needs m
    y = body.zip("add", body.zip("mul", filled, cast), filled)
    late = body.map("neg", early)
    program = body.program([X], y, late)
    after, found = fused(program)
    symbols = [e for node in found.graph.nodes for e in node.edges if e.symbol]
    assert {(e.symbol, found.graph.nodes[e.target].name) for e in symbols} >= {("m", filled.name)}
    names = [b.vars[0].name for b in after.main.body]
    assert names.index(cast.name) < names.index(y.name)
    assert [g.members for g in found.groups if len(g.members) > 1] == [
        (filled.name, "v4", y.name),
        (early.name, late.name),
    ]
    same(program, after, x=numbers(3, 3))


def test_a_tensor_that_is_written_over_later_keeps_its_readers_in_place() -> None:
    body = Body()
    base = body.map("abs", X)
    alias = body.view(base, n, n)
    read_before = body.map("neg", alias)
    over = body.put(base, body.full(n, n))
    y = body.zip("add", body.map("sqrt", over), read_before)
    program = body.program([X], y)
    groups_found = groups(program)
    assert not any(read_before.name in g for g in groups_found)
    assert "overwritten later" in reason(program, read_before.name)
    assert ("v5", "v6") in groups_found, "what reads the last version may move"
    x = numbers(4, 4)
    same(program, fused(program)[0], x=x)
    want = np.abs(x)
    want[0] = 1
    np.testing.assert_allclose(run(program, x=x)["v6"], np.sqrt(want) - np.abs(x), rtol=1e-6)


# The plan as data.


def test_the_plan_has_dominators_and_steps_for_every_node() -> None:
    body = Body()
    a = body.map("abs", X)
    y = body.zip("add", body.map("neg", a), body.map("exp", a))
    program = body.program([X], y)
    found = plan(program, program.main)
    parents = [d.parent for d in found.graph.dominators]
    assert parents == [3, 3, 3, None]
    assert [d.depth for d in found.graph.dominators] == [2, 2, 2, 1]
    taken = [(s.phase, s.node, s.dominator, s.merged) for s in found.steps if s.taken]
    assert taken == [(0, "v0", "v3", ("v0", "v1", "v2"))]
    assert [(s.node, s.reason) for s in found.refusals] == [
        ("v3", "it is an output, so it is stored")
    ]
    assert found.groups[0].kind is PatternKind.ELEMENTWISE


def test_fusing_is_off_by_default_and_takes_the_place_of_welding() -> None:
    body = Body()
    y = body.map("exp", body.softmax(body.matmul(X, X)))
    program = body.program([X], y)
    welded = explorer.compile(model(program), until="welded")
    assert "fuse operators" not in [s.name for s in welded.snapshots]
    assert len(welded.program.kernel_calls) == 1
    options = explorer.Options(relax=RelaxOptions(fuse=True), welder=WelderOptions())
    named = explorer.compile(model(program), options=options, until="welded")
    assert "fuse operators" in [s.name for s in named.snapshots]
    assert [b.expr.kernel.name for b in named.program.kernel_calls] == [
        "matmul",
        "fused_softmax_exp",
    ]
    graph = named.program.decisions.tile_graph
    assert graph is not None and all(len(g.members) == 1 for g in graph.groups)


# Random graphs.


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.sampled_from([1, 2, 3, 5]))
def test_a5_08_fusion_preserves_values(program: Program, extent: int) -> None:
    after, found = fused(program)
    same(program, after, x=numbers(extent, extent), r=numbers(extent))
    kinds = {x.name: x.kind for x in found.graph.nodes}
    outputs = {v.name for v in program.main.outputs}
    for group in found.groups:
        anchors = [g for g in group.members if kinds[g] is PatternKind.OUT_EWISE_FUSABLE]
        assert len(anchors) <= 1
        assert not outputs & set(group.members[:-1])
        if len(group.members) > 1:
            assert all(kinds[g] is not PatternKind.OPAQUE for g in group.members)
    sources = frozenset[str]().union(*(b.origin for b in program.main.body))
    assert sources == frozenset[str]().union(*(b.origin for b in after.main.body))
    outlined = FuseOps(merge=False)(program)
    verify(outlined)
    same(program, outlined, x=numbers(extent, extent), r=numbers(extent))


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(
    max_examples=examples(15, few=6), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(programs(most=6), st.sampled_from([1, 2, 5]))
def test_a5_08_fused_kernels_run_as_machine_code(program: Program, extent: int) -> None:
    x, r = numbers(extent, extent), numbers(extent)
    want = evaluate(program, {"x": x, "r": r})
    got = run(program, x=x, r=r)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_resnet18", "tiny_while", "tiny_skip"])
def test_a5_08_the_tiny_models_have_fewer_kernels_and_the_same_values(name: str) -> None:
    before = explorer.compile(DATA / f"{name}.onnx", until="tasked").program
    after = FuseOps()(before)
    verify(after)
    assert len(after.kernel_calls) < len(before.kernel_calls)
    inputs = random_inputs(before)
    assert difference(evaluate(before, inputs), evaluate(after, inputs)) == ""
    assert len(after.decisions.fusion) == len(before.functions)


def test_match_casts_and_library_calls_stay_as_they_are() -> None:
    body = Body()
    y = body.map("neg", body.match_cast(body.library(X), tensor(n, n)))
    after, _ = fused(body.program([X], y))
    assert [type(b.expr) for b in after.main.body][1:] == [MatchCast, KernelCall]


def test_a_view_that_joins_dims_stays_a_view_and_one_that_cuts_them_is_fused() -> None:
    body = Body()
    x = Var("x", tensor(n, 6))
    cut = body.map("neg", body.view(body.map("abs", x), n, 2, 3))
    joined = body.map("neg", body.view(cut, n, 6))
    program = body.program([x], joined)
    after, found = fused(program)
    assert [g.members for g in found.groups] == [("v0", "v1", "v2"), ("v3",), ("v4",)]
    assert found.refusals[0].reason.startswith("an edge is Opaque")
    assert "its elements have no affine index" in reason(program, "v3")
    value = numbers(5, 6)
    same(program, after, x=value)
    np.testing.assert_array_equal(run(program, x=value)["v4"], np.abs(value))
