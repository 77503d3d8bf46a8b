"""Splitting a loop over layers into a loop for each, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer import np as xp
from explorer.frontends.python.trace import Traced
from explorer.ir.calls import Loop
from explorer.ir.program import Program
from explorer.measure.this_cpu import this_cpu
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.transforms.shared_products import HoistRowProducts
from explorer.transforms.shared_products import Options as Recurrent
from explorer.transforms.split_loops import (
    LoopPart,
    SplitLoops,
    assign_stages,
    rank_splitting,
    strongly_connected_components,
)
from tests.examples import examples
from tests.transforms.test_row_products import RNG, tensor, typed

WIDTH = 8
ON = Recurrent(hoist="on", split="on")
WEIGHTS = [RNG.standard_normal((WIDTH, WIDTH), np.float32) / 4 for _ in range(6)]


def split(program: Program, options: Recurrent = ON) -> Program:
    after = SplitLoops(this_cpu(), options)(program)
    verify(after)
    return after


def loops(program: Program) -> list[int]:
    """How many values each loop of the main function carries."""
    return [len(b.expr.state) for b in program.main.body if isinstance(b.expr, Loop)]


def layers(count: int) -> Callable[..., Any]:
    def run(x: Any, h: Any) -> Any:
        def step(states: Any, row: Any) -> Any:
            after = []
            for n, state in enumerate(states):
                row = xp.tanh(row @ WEIGHTS[n] + state @ WEIGHTS[-1 - n])
                after.append(row)
            return tuple(after), row

        return explorer.scan(step, (h,) * count, x)

    return run


SHAPES = {"x": tensor("float32", 5, "batch", WIDTH), "h": tensor("float32", "batch", WIDTH)}


def close(found: Any, wanted: Any) -> None:
    flat = [v for w in wanted for v in (w if isinstance(w, tuple) else (w,))]
    for value, right in zip(found.values(), flat, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("steps", [0, 1, 5, "steps"])
def test_each_layer_has_a_loop_of_its_own(steps: Any) -> None:
    shapes = {**SHAPES, "x": tensor("float32", steps, "batch", WIDTH)}
    before = typed(layers(3), **shapes)
    after = split(before)
    assert (loops(before), loops(after)) == ([3], [1, 1, 1])
    rows = 2 if steps == "steps" else steps
    x, h = (RNG.standard_normal(s, np.float32) for s in ((rows, 3, WIDTH), (3, WIDTH)))
    model = explorer.load(Traced(layers(3)), inputs=shapes)
    compiled = explorer.compile(model, options=explorer.Options(recurrent=ON), check=True)
    wanted = layers(3)(x, h)
    for found in (evaluate(after, {"x": x, "h": h}), compiled.run({"x": x, "h": h})):
        close(found, wanted)


def test_what_multiplies_the_rows_of_a_layer_is_then_done_before_its_loop() -> None:
    after = HoistRowProducts(this_cpu(), ON)(split(typed(layers(3), **SHAPES)))
    verify(after)
    assert [len(f.body) for f in after.functions if f is not after.main]
    assert len(after.decisions.products) == 3


def test_a_layer_that_hears_of_the_one_above_stays_with_it() -> None:
    def run(x: Any, h: Any) -> Any:
        def step(states: Any, row: Any) -> Any:
            low, high = states
            low = xp.tanh(row + low @ WEIGHTS[0] + high)
            return (low, xp.tanh(low + high @ WEIGHTS[1])), None

        return explorer.scan(step, (h, h), x)[0]

    before = typed(run, **SHAPES)
    assert split(before) == before


def test_a_loop_that_data_end_stays() -> None:
    def run(x: Any, h: Any) -> Any:
        low = high = h
        for row in x:
            low = xp.tanh(row + low @ WEIGHTS[0])
            high = xp.tanh(low + high @ WEIGHTS[1])
            if high.sum() > 3:
                break
        return low, high

    before = typed(run, **{**SHAPES, "x": tensor("float32", "steps", "batch", WIDTH)})
    assert split(before) == before


@st.composite
def recipes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Layers: what each reads, by which matrices it multiplies, whose state it keeps going, what
    becomes of its state, and whether it is stacked. Mostly the one below, and its own.
    """

    def mostly(usual: int, count: int) -> int:
        return draw(st.sampled_from([usual] * 6 + list(range(count))))

    count = draw(st.integers(2, 4))
    return [
        {
            "reads": mostly(n, n + 1),  # 0 is the row, and each layer after its number one more
            "weights": (mostly(n, 6), draw(st.sampled_from([None, n + 1, n + 1]))),
            "state": mostly(n, count),
            "after": mostly(n, count),
            "stacked": draw(st.booleans()),
        }
        for n in range(count)
    ]


def body_of(recipe: list[dict[str, Any]]) -> Callable[..., Any]:
    def run(x: Any, h: Any) -> Any:
        def step(states: Any, row: Any) -> Any:
            made = [row]
            for layer in recipe:
                first, second = layer["weights"]
                state = states[layer["state"]]
                state = state * 0.5 if second is None else state @ WEIGHTS[second]
                made.append(xp.tanh(made[layer["reads"]] @ WEIGHTS[first] + state))
            stacked = tuple(m for m, layer in zip(made[1:], recipe) if layer["stacked"])
            return tuple(made[1 + layer["after"]] for layer in recipe), stacked

        return explorer.scan(step, tuple(h * (n + 1) for n in range(len(recipe))), x)

    return run


def test_many_of_the_drawn_bodies_fall_into_parts() -> None:
    found = []

    @given(recipe=recipes())
    @settings(max_examples=examples(40), deadline=None, derandomize=True)
    def draw(recipe: list[dict[str, Any]]) -> None:
        found.append(len(loops(split(typed(body_of(recipe), **SHAPES)))) > 1)

    draw()
    assert 0.2 * len(found) < sum(found) < len(found)


@given(recipe=recipes())
@settings(max_examples=examples(60), deadline=None)
def test_any_body_computes_what_it_did(recipe: list[dict[str, Any]]) -> None:
    run = body_of(recipe)
    before = typed(run, **SHAPES)
    after = HoistRowProducts(this_cpu(), ON)(split(before))
    verify(after)
    given_ = {"x": RNG.standard_normal((5, 2, WIDTH), np.float32), "h": np.ones((2, WIDTH), "f4")}
    close(evaluate(after, given_), run(**given_))


@pytest.mark.exhaustive
@given(recipe=recipes())
@settings(max_examples=6, deadline=None)
def test_any_body_compiled_computes_what_it_did(recipe: list[dict[str, Any]]) -> None:
    run = body_of(recipe)
    model = explorer.load(Traced(run), inputs=SHAPES)
    given_ = {"x": RNG.standard_normal((5, 2, WIDTH), np.float32), "h": np.ones((2, WIDTH), "f4")}
    compiled = explorer.compile(model, options=explorer.Options(recurrent=ON))
    close(compiled.run(given_), run(**given_))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[set[int]], set[int]]:
    count = draw(st.integers(1, 10))
    nodes = st.integers(0, count - 1)
    needs = [draw(st.sets(nodes, max_size=3)) for _ in range(count)]
    return needs, draw(st.sets(nodes))


@given(graph=graphs())
@settings(max_examples=examples(200))
def test_stages_keep_cycles_together_and_the_rest_in_order(graph: Any) -> None:
    needs, heavy = graph
    reach = [set(n) for n in needs]
    for _ in needs:
        for found in reach:
            found |= {m for n in tuple(found) for m in reach[n]}
    part, stage = strongly_connected_components(needs), assign_stages(needs, heavy)
    for a in range(len(needs)):
        for b in reach[a]:
            assert (part[a] == part[b]) == (a == b or a in reach[b])
            assert stage[b] <= stage[a]
            if part[a] == part[b]:
                assert stage[a] == stage[b]
    anchors = [n for n in heavy if n in reach[n]]
    for a in anchors:
        for b in anchors:
            if b in reach[a] and a not in reach[b]:
                assert stage[b] < stage[a]


def test_the_model_weighs_where_matrices_lie() -> None:
    large, small = (LoopPart(n, n, 1e3) for n in (1 << 20, 1 << 12))
    device = this_cpu()
    ways = rank_splitting([large] * 10, 64, 1 << 20, device, "auto")
    assert [w.label for w in ways] == ["parts", "whole"]
    ways = rank_splitting([small] * 2, 64, 1 << 26, device, "auto")
    assert ways[0].label == "whole" and "longer by the model" in ways[1].refused
    assert rank_splitting([large] * 10, 64, 1 << 20, device, "off")[0].label == "whole"
