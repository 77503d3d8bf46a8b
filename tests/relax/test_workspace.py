"""Long sums are split, and what no tile keeps becomes a value that the memory plan places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at, axes
from explorer.ir.program import Binding, Program
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.interpreter.evaluate import evaluate, evaluate_kernel
from explorer.ops.interpreter.verify import verify
from explorer.relax import FuseOps
from explorer.relax import Options as RelaxOptions
from explorer.relax.lift_workspaces import LiftWorkspaces, Workspace
from explorer.relax.reductions import SplitReduction
from explorer.welder import Options as WelderOptions
from tests.examples import examples
from tests.relax.kernel_programs import Body, model, n, tensor
from tests.strategies.kernel_programs import programs

w = symbol("w")
random = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return random.integers(-3, 4, shape).astype(np.float32)


def product(rows: Dim, depth: Dim, columns: Dim, body: Body | None = None) -> Program:
    body = body or Body()
    a, b = Var("a", tensor(rows, depth)), Var("b", tensor(depth, columns))
    return body.program([a, b, Var("s", tensor(n))], body.matmul(a, b))


def kernel_of(program: Program) -> Kernel:
    call = program.main.body[-1].expr
    assert isinstance(call, KernelCall)
    return call.kernel


def rows(program: Program) -> list[Workspace]:
    return [r for r in program.decisions.workspaces if isinstance(r, Workspace)]


def same(before: Program, after: Program, /, **inputs: np.ndarray) -> None:
    verify(after)
    want, got = evaluate(before, inputs), evaluate(after, inputs)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-4)


# Splitting.


def test_a_long_sum_is_made_of_its_parts_in_one_kernel() -> None:
    before = product(4, 512, 8)
    after = SplitReduction(4)(before)
    (binding,) = after.main.body
    parts, whole = kernel_of(after).computes
    assert kernel_of(after).shape("y_parts") == (4, 4, 8)
    assert [a.extent for a in parts.reduce] == [128]
    assert [a.extent for a in whole.reduce] == [4]
    same(before, after, a=numbers(4, 512), b=numbers(512, 8), s=numbers(2))
    assert binding.origin == before.main.body[0].origin
    assert parse_program(print_program(after), {}).main == after.main


def test_a_sum_of_symbolic_length_is_split_where_the_parts_divide_it() -> None:
    env = ShapeEnv((SymbolBound("n", 0, None, 128),))
    before = product(4, 8 * n, 8, Body(env=env))
    after = SplitReduction(4)(before)
    assert [a.extent for a in kernel_of(after).computes[0].reduce] == [2 * n]
    for extent in (0, 1, 3):
        same(before, after, a=numbers(4, 8 * extent), b=numbers(8 * extent, 8), s=numbers(extent))
    indivisible = product(4, n, 8, Body(env=env))
    assert SplitReduction(2, least=1)(indivisible) == indivisible


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((4, 509, 8), "no axis of the sum is divided by a number of parts for every binding"),
        ((4, 127, 8), "its sum is 127 long, too short for two parts of 64"),
        ((200, 512, 200), "its result has 90 tiles, which are enough"),
    ],
)
def test_what_is_not_worth_it_or_cannot_be_is_left_with_a_reason(
    shape: tuple[int, int, int], reason: str
) -> None:
    before = product(*shape)
    split = SplitReduction(4)
    kernel = kernel_of(before)
    assert split(before) == before
    assert reason == split.choose(kernel, kernel.computes[0], before.env)


def test_one_chunk_is_no_split() -> None:
    with pytest.raises(BadOption, match="2 chunks or more"):
        SplitReduction(1)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 6), st.integers(2, 5))
def test_splitting_keeps_values(m: int, k: int, columns: int, chunks: int) -> None:
    before = product(m, k, columns)
    after = LiftWorkspaces()(SplitReduction(chunks, tiles=99, least=1)(before))
    same(before, after, a=numbers(m, k), b=numbers(k, columns), s=numbers(2))


# Lifting.


def test_a5_13_a_lifted_workspace_is_a_value_of_the_caller() -> None:
    before = SplitReduction(4)(product(4, 512, 8))
    after = LiftWorkspaces()(before)
    made, used = after.main.body
    assert made.var == Var("v0.y_parts", tensor(4, 4, 8))
    assert used.reads == (made.var,)
    assert used.var == before.main.body[0].var
    assert made.origin == used.origin
    (row,) = rows(after)
    assert (row.call, row.tensor, row.bytes, row.refused) == ("v0", "y_parts", 512, "")
    assert "different units" in row.reason
    same(before, after, a=numbers(4, 512), b=numbers(512, 8), s=numbers(2))


def chain(body: Body) -> tuple[Program, Var]:
    """Two maps of a large matrix, then a product with a long sum."""
    x, b = Var("x", tensor(4, 512)), Var("b", tensor(512, 8))
    turned = body.map("neg", body.softmax(x))
    return body.program([x, b], body.matmul(body.softmax(turned), b)), turned


def test_a5_13_the_workspace_is_in_the_plan_and_shares_with_a_dead_tensor() -> None:
    program, _ = chain(Body())
    lowered = LiftWorkspaces()(SplitReduction(4)(program))
    apart = WelderOptions(enabled=False)  # together the maps leave no tensor that could be dead
    options = explorer.Options(relax=RelaxOptions(lift=True), welder=apart)
    compiled = explorer.compile(model(lowered), options=options)
    plan = compiled.memory({})
    placed = {b.name: b for b in plan.buffers}
    (name,) = [x for x in placed if x.endswith("y_parts")]
    space = placed[name]
    shares = [
        b.name
        for b in plan.buffers
        if b.name != name
        and b.offset < space.offset + space.bytes
        and space.offset < b.offset + b.bytes
    ]
    assert shares, [(b.name, b.offset, b.bytes) for b in plan.buffers]
    assert all(placed[s].last < space.first for s in shares)
    x, b = numbers(4, 512), numbers(512, 8)
    want = evaluate(program, {"x": x, "b": b})
    for _ in range(2):
        got = compiled.run({"x": x, "b": b})
        for key, value in want.items():
            np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-5)


def test_the_option_splits_and_lifts_for_the_units_of_the_device() -> None:
    program = product(4, 2048, 8)
    off = explorer.compile(model(program), "a100", until="legalized")
    assert len(off.program.kernel_calls) == 1
    options = explorer.Options(relax=RelaxOptions(lift=True))
    on = explorer.compile(model(program), "a100", options=options, until="legalized")
    assert [s.name for s in on.snapshots if "split long" in s.name or "lift" in s.name] == [
        "split long sums",
        "lift workspaces",
    ]
    assert len(on.program.kernel_calls) == 2
    long = model(product(4, 16384, 8))
    apart = explorer.compile(long, "a100", options=options, until="welded")
    assert len(apart.program.kernel_calls) == 2, "welding does not put them together again"


def test_a_split_that_is_not_lifted_runs_too() -> None:
    program = product(4, 512, 8)
    split = SplitReduction(4)(program)
    a, b = numbers(4, 512), numbers(512, 8)
    got = explorer.compile(model(split)).run({"a": a, "b": b, "s": numbers(1)})["v0"]
    np.testing.assert_allclose(got, a @ b, atol=1e-4)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.sampled_from([1, 2, 3, 5]))
def test_a5_13_lifting_all_that_can_be_lifted_keeps_values(program: Program, extent: int) -> None:
    fused = FuseOps()(program)
    split = SplitReduction(3, tiles=99, least=1)(fused)
    lifted = LiftWorkspaces(kept_bytes=0)(split)
    same(program, lifted, x=numbers(extent, extent), r=numbers(extent))
    inside = [
        (b.var.name, t)
        for b in lifted.kernel_calls
        for t in dict.fromkeys(c.out for c in b.expr.kernel.computes)
        if t != b.expr.kernel.output
    ]
    refused = {w.tensor for w in rows(lifted) if w.refused}
    assert {t for _, t in inside} <= refused


def test_a_fused_product_is_split_and_lifted_with_what_follows_it() -> None:
    body = Body()
    a, b = Var("a", tensor(4, 2048)), Var("b", tensor(2048, 8))
    program = body.program([a, b], body.map("tanh", body.matmul(a, b)))
    options = explorer.Options(relax=RelaxOptions(fuse=True, lift=True))
    compiled = explorer.compile(model(program), options=options)
    names = [k.var.name for k in compiled.program.kernel_calls]
    x, y = numbers(4, 2048) / 64, numbers(2048, 8)
    np.testing.assert_allclose(compiled.run({"a": x, "b": y})["v1"], np.tanh(x @ y), atol=1e-4)
    if compiled.device.units > 1:
        assert names == ["v1.y_parts", "v1"]


def needing(extent: Dim) -> Binding:
    """A kernel whose partial sums have an extent of their own."""
    parts, i, k = Axis("s", extent), Axis("i", n), Axis("k", 4)
    load = Read("x", (var("i"), var("s") * 4 + var("k")))
    kernel = Kernel(
        "total",
        (
            TensorSpec("x", (n, 4 * extent)),
            TensorSpec("p", (extent, n)),
            TensorSpec("y", (n,)),
        ),
        (
            Compute("p", (parts, i), load, (k,), "sum"),
            Compute("y", (i,), at("p", (parts, i)), (parts,), "sum"),
        ),
        ("x",),
        ("y",),
    )
    return Binding((Var("y", tensor(n)),), KernelCall(kernel, (Var("x", tensor(n, 4 * extent)),)))


def test_a5_13_a_workspace_whose_shape_the_caller_cannot_write_stays_inside() -> None:
    binding = needing(w)
    body = Body(bindings=[binding])
    before = body.program([Var("x", tensor(n, 4 * w))], binding.var)
    after = LiftWorkspaces()(before)
    assert after.main == before.main
    (row,) = rows(after)
    assert row.refused == "its shape needs w, which the caller does not know"
    assert isinstance(binding.expr, KernelCall)
    x = numbers(3, 8)
    got = evaluate_kernel(kernel_of(after), [x], {"n": 3, "w": 2})
    np.testing.assert_allclose(got, x.sum(axis=1))
    known = needing(2)
    body = Body(bindings=[known])
    before = body.program([Var("x", tensor(n, 8))], known.var)
    lifted = LiftWorkspaces()(before)
    assert len(lifted.main.body) == 2
    same(before, lifted, x=x)


def test_a_tensor_that_one_element_needs_whole_is_lifted() -> None:
    """Each output element reads a whole row of `t`; more than the limit is not kept in a tile."""
    body = Body()
    x = Var("x", tensor(4, 300))
    y = body.softmax(x)
    before = body.program([x], y)
    assert LiftWorkspaces()(before).main == before.main
    after = LiftWorkspaces(kept_bytes=1000)(before)
    assert [r.tensor for r in rows(after)] == ["e"]
    assert "one element of the output needs 1200 bytes" in rows(after)[0].reason
    assert [b.var.name for b in after.main.body] == ["v0.e", "v0"]
    same(before, after, x=numbers(4, 300))


def test_two_tensors_that_cross_the_cut_stay_inside() -> None:
    body = Body()
    x = Var("x", tensor(4, 300))
    i, j = over = axes("i", (4, 300))
    y = body.kernel(
        "both",
        [x],
        (4, 300),
        Compute("t", (i,), at("a", over), (j,), "max"),
        Compute("u", over, apply("sub", at("a", over), at("t", (i,)))),
        Compute("s", (i,), at("u", over), (j,), "sum"),
        Compute("y", over, apply("div", apply("add", at("u", over), at("t", (i,))), at("s", (i,)))),
        t=(4,),
        u=(4, 300),
        s=(4,),
    )
    before = body.program([x], y)
    after = LiftWorkspaces(kept_bytes=1000)(before)
    assert after.main == before.main
    assert rows(after)[0].refused == "t would have to leave the kernel too"


def test_what_is_written_over_another_tensor_stays_inside() -> None:
    before = SplitReduction(4)(product(4, 512, 8))
    (binding,) = before.main.body
    assert isinstance(binding.expr, KernelCall)
    kernel = replace(binding.expr.kernel, updates=((binding.expr.kernel.output, "a"),))
    changed = replace(binding, expr=replace(binding.expr, kernel=kernel))
    found = LiftWorkspaces()(before.with_body((changed,)))
    assert "writes into another tensor" in rows(found)[0].refused
