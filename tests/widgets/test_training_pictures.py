"""The cache panel and the training graph: what they show is so."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import explorer
import widgets
from explorer import np as enp
from explorer.errors import BadOption
from explorer.ir.calls import Var
from explorer.ir.program import Binding
from explorer.ir.stage import Stage
from explorer.transforms.autodiff.options import Options as Rematerialised
from explorer.transforms.simplify.substitution import with_reads
from tests.widgets.drawn_geometry import ALL_SIZES, SIZES, problems
from widgets.rooms import gallery
from widgets.training import backward, memory_front


def loss(p: Any, x: Any) -> Any:
    h = enp.tanh(x @ p["w"])
    return (enp.exp(h) @ p["v"]).sum()


def step(p: Any, x: Any) -> Any:
    value, grads = explorer.value_and_grad(loss)(p, x)
    return value, {name: p[name] - 0.1 * grads[name] for name in p}


KINDS = {"w": explorer.tensor("float32", 8, 16), "v": explorer.tensor("float32", 16, 3)}


def compiled(function: Any = step, **words: Any) -> explorer.Compilation:
    model = explorer.trace(function)(KINDS, explorer.tensor("float32", "batch", 8))
    return explorer.compile(model, **words)


def test_a_value_of_a_size_that_only_a_run_knows_counts_no_bytes() -> None:
    places = explorer.trace(lambda x: enp.nonzero(x)[0] + 1)(explorer.tensor("float32", "n"))
    rows = backward.data(explorer.compile(places, until="planned"), {"n": 5})
    assert rows.nodes and not sum(n.bytes for n in rows.nodes if n.label == "NonZero")


def test_values_that_backward_reads_are_kept_with_their_bytes() -> None:
    rows = backward.data(compiled(), {"batch": 5})
    phases = {n.name: n.phase for n in rows.nodes}
    assert list(dict.fromkeys(phases.values())) == ["forward", "backward", "update"]
    # Of tanh and of exp their results; the sum hands on a constant, the product its operands.
    assert {s.name: s.bytes for s in rows.saved} == {"tanh": 5 * 16 * 4, "exp": 5 * 16 * 4}
    assert rows.saved_bytes == 2 * 5 * 16 * 4
    assert {s.name for s in rows.inputs} == {"p.v", "x"}
    for s in (*rows.saved, *rows.inputs):
        assert s.readers and all(rows.nodes[r].phase == "backward" for r in s.readers)
    assert "2 values kept in between, 640 B" in backward.caption(rows)


def deep(weights: Any, x: Any) -> Any:
    for w in weights:
        x = enp.tanh(x @ w)
    return (x * x).mean()


def test_a_step_has_its_pictures_in_the_house_under_gradients_and_code() -> None:
    model = explorer.trace(explorer.value_and_grad(deep))(
        [explorer.tensor("float32", 8, 8)] * 6, explorer.tensor("float32", 64, 8)
    )
    again = explorer.Options(rematerialisation=Rematerialised(share=0.7))
    c = explorer.compile(model, options=again, until="planned")
    assert [p.name for p in gallery.pictures_of_stage(Stage.DIFFERENTIATED)] == [
        "backward",
        "memory_time",
    ]
    assert gallery.pictures_of_stage(Stage.EMITTED)[-1].name == "cache"
    session = widgets.explore(c).session
    told = session.answer("picture", {"room": "memory_time", "op": -1})
    line, taken = told["figure"]["data"]
    rows = widgets.data(c, "memory_time")
    assert len(line["x"]) == len(rows) > 2 and list(line["customdata"]) == [p.words for p in rows]
    (mine,) = (p for p in rows if p.taken)
    (_, size), _ = memory_front.units(rows)
    assert list(taken["x"]) == [mine.peak_bytes / size] and mine.words in told["said"]
    assert "recomputed" in session.answer("picture", {"room": "backward", "op": -1})["svg"]


def test_memory_against_time_waits_for_tiles() -> None:
    with pytest.raises(BadOption, match="compile through ROLLED"):
        widgets.data(compiled(until="differentiated"), "memory_time")


def test_without_a_gradient_all_is_forward() -> None:
    rows = backward.data(compiled(loss), {"batch": 5})
    assert rows.nodes and {n.phase for n in rows.nodes} == {"forward"} and not rows.saved


@pytest.mark.parametrize("again_as", ["tanh.9", "tanh.again", "tanh.again.2"])
def test_what_is_computed_again_is_told_from_what_is_kept(again_as: str) -> None:
    """`tanh` a second time, behind the forward part, and read in the place of the first."""
    found = next(s for s in compiled().snapshots if s.name == backward.STEP)
    main, rows = found.after.main, backward.data(compiled(), {"batch": 5})
    first = next(b for b in main.body if b.name == "tanh")
    again = Var(again_as, first.var.type)
    begin = next(n for n, node in enumerate(rows.nodes) if node.phase == "backward")
    rest = [
        Binding(b.vars, with_reads(b.expr, {"tanh": again}), b.origin) for b in main.body[begin:]
    ]
    body = (*main.body[:begin], Binding((again,), first.expr, first.origin), *rest)
    after = found.after.with_function(replace(main, body=body))
    edited: Any = SimpleNamespace(
        snapshots=[
            found,
            SimpleNamespace(name=backward.RECOMPUTING, before=found.after, after=after),
        ]
    )
    rows = backward.data(edited, {"batch": 5})
    assert [n.name for n in rows.nodes if n.phase == "recomputed"] == [again_as]
    assert {s.name for s in rows.saved} == {"mat_mul", "exp"}  # what tanh is computed of
    assert "1 recomputed" in backward.caption(rows)
    assert "again: Tanh" in backward.figure(rows, SIZES[0]).text("light")
    assert "1 value are" not in str(backward.see(rows))


@pytest.mark.parametrize("size", ALL_SIZES)
def test_of_many_nodes_those_are_drawn_whose_values_are_kept(size: tuple[int, int]) -> None:
    def deep(p: Any, x: Any) -> Any:
        for _ in range(36):
            x = enp.tanh(x)
        return (x @ p["w"]).sum()

    rows = backward.data(compiled(explorer.grad(deep, argnums=(1,))), {"batch": 5})
    assert len(rows.saved) == 36
    for selected in ("", rows.nodes[20].ops[0]):
        figure = backward.figure(rows, size, selected)
        assert problems(figure) == [] and "more<" in figure.text("light")
    assert len(backward.table(rows).rows) == len(rows.nodes) + len(rows.inputs)
    for m in (m for s in backward.see(rows) for m in s if not isinstance(m, str)):
        assert f'data-k="{m.lights}"' in figure.body


def test_forward_stands_over_what_is_its_derivative() -> None:
    rows = backward.data(compiled(), {"batch": 5})
    text = backward.figure(rows, SIZES[0]).text("light")
    places: dict[str, list[float]] = {"forward": [], "backward": []}
    for group in ElementTree.fromstring(text).iter():
        if group.get("data-k") in places and (box := group.find("{*}rect")) is not None:
            places[str(group.get("data-k"))].append(float(box.get("y", 0)))
    assert max(places["forward"]) < min(places["backward"])
    assert len(places["forward"]) == sum(n.phase == "forward" for n in rows.nodes)
