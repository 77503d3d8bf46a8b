"""A tile that was pinned by hand is Roller's again where another knob leaves no kernel for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import explorer
from explorer.compiler.options import Options
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.transforms.winograd import Options as ConvolutionOptions
from widgets.model.knob import Knob
from widgets.session.session import Session

# Without Welder the rectifier is a kernel of its own, with other axes than the convolution.
MODEL = """
    <ir_version: 8, opset_import: ["" : 17]>
    rectified (float[1, 16, 16, 16] x) => (float[n, c, h, w] y) {
        first = Relu (x)
        sums = Conv <pads = [1, 1, 1, 1]> (first, filters)
        positive = Relu (sums)
        y = GlobalAveragePool (positive)
    }"""
FILTERS = np.ones((16, 16, 3, 3), np.float32)
TARGETS = ("this-cpu", "h100")


def compiled(target: str, path: Path) -> Any:
    model = parser.parse_model(MODEL)
    model.graph.initializer.append(onnx.numpy_helper.from_array(FILTERS, "filters"))
    onnx.save(model, path / "rectified.onnx")
    options = Options(convolution=ConvolutionOptions("f4"))  # tiled along its own tiles
    return explorer.compile(path / "rectified.onnx", target, options, until="planned")


def session_on(target: str, path: Path) -> Session:
    session = Session(compiled(target, path), coded=True)
    session.answer("focus", {"op": 1})
    session.look({"op": session.focus})
    return session


@pytest.fixture(params=TARGETS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return session_on(request.param, tmp_path)


def knob(session: Session, name: str) -> Knob:
    return next(k for k in session.knobs() if k.name == name)


def turn(session: Session, name: str, label: str) -> Any:
    args = {"knob": name, "index": knob(session, name).labels.index(label), "label": label}
    job = session.answer("begin_turn", args)["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    return session.answer("turn", args)


def value(session: Session, name: str) -> str:
    mine = knob(session, name)
    return mine.labels[mine.now]


def pins(session: Session) -> dict[str, Tiling]:
    roller = session.now.compiled.options.roller
    return dict(roller.pinned)


def pin_another(session: Session) -> str:
    """The kernel whose tile is pinned in the place of the one that Roller chose, along axes that no
    rectifier has.
    """
    own, labels = value(session, "tile"), knob(session, "tile").labels
    turn(session, "tile", next(x for x in labels if x != own and ("th=" in x or " of kh " in x)))
    (name,) = pins(session)
    return name


def test_the_tile_is_refused_where_a_program_asks_for_it(session: Session) -> None:
    name, c = pin_another(session), session.now.compiled
    with pytest.raises(BadOption, match=f"of {name} is not legal: there is no axis"):
        c.with_options(welder=replace(c.options.welder, enabled=False))


def test_another_knob_leaves_the_tile_to_roller_and_says_so(session: Session) -> None:
    name = pin_another(session)
    what = "thread block" if session.now.compiled.device.kind == "gpu" else "tile"
    policy = value(session, "fusion")
    words = f"fusion {policy} → off; the {what} of {session.house.label(name)} is Roller's again"
    told = turn(session, "fusion", "off")
    assert told["said"].startswith(f"{words}: predicted ") and not pins(session)
    assert session.history()[-1]["what"] == words


def test_undoing_pins_it_again_and_redoing_leaves_it_again(session: Session) -> None:
    name = pin_another(session)
    tile, policy = pins(session)[name], value(session, "fusion")
    turn(session, "fusion", "off")
    session.answer("undo", {})
    assert pins(session) == {name: tile}
    session.answer("redo", {})
    assert not pins(session)
    turn(session, "fusion", policy)
    assert not pins(session)


def test_a_setting_leaves_it_to_roller_too(session: Session) -> None:
    name = pin_another(session)
    turned = {"knob": "set welder.enabled", "index": 1, "label": "off"}
    assert (
        f"of {session.house.label(name)} is Roller's again"
        in session.answer("turn", turned)["said"]
    )
    assert not pins(session)


def test_links_are_restored_over_a_pinned_tile(session: Session, tmp_path: Path) -> None:
    name = pin_another(session)
    tile, policy, pinned = pins(session)[name], value(session, "fusion"), session.link()["text"]
    turn(session, "fusion", "off")
    off = session.link()["text"]
    for text, tiles, fusion in (
        (pinned, {name: tile}, policy), (off, {}, "off"), (pinned, {name: tile}, policy),
    ):  # fmt: skip
        told = session.answer("restore", {"text": text})
        assert told["said"] == "The state of the link is restored."
        assert pins(session) == tiles and value(session, "fusion") == fusion
    for text, tiles in ((off, {}), (pinned, {name: tile})):
        again = session_on(session.now.compiled.device.name, tmp_path)
        again.answer("restore", {"text": text})
        assert pins(again) == tiles


def test_an_error_is_looked_at_without_the_tile(session: Session) -> None:
    """What ends in another error, after Roller, stops there and not at the tile."""
    pin_another(session)
    with pytest.raises(BadOption, match="there is no error to show"):
        session.answer(
            "as_far", {"knob": "fusion", "index": knob(session, "fusion").labels.index("off")}
        )


def test_rollers_own_tile_is_not_pinned(session: Session) -> None:
    own = value(session, "tile")
    turn(session, "tile", own)
    assert not pins(session)
    pin_another(session)
    turn(session, "tile", own)
    assert not pins(session) and value(session, "tile") == own
    assert session.now.compiled.options == session.pinned.compiled.options


def test_a_tile_that_a_program_pinned_gives_way_to_the_one_that_is_asked_for(
    tmp_path: Path,
) -> None:
    """Pinned to Roller's own, the next best is not taken for that."""
    c = compiled("this-cpu", tmp_path)
    decision = c.program.decisions.tiling("positive")
    roller = replace(c.options.roller, pinned=((decision.binding, decision.chosen),))
    session = Session(c.with_options(roller=roller), coded=True)
    session.answer("focus", {"op": 1})
    other = knob(session, "tile").labels[1]
    turn(session, "tile", other)
    assert value(session, "tile") == other
    assert pins(session) == {decision.binding: knob(session, "tile").values[0][1]}
