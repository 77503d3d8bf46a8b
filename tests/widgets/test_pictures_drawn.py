"""Pictures of several models: nothing overlaps or is cut at any size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from tests.frontends.models import DATA
from tests.runtime.test_control_events import collatz
from tests.widgets.drawn_geometry import ALL_SIZES, problems
from widgets.model.picture import View
from widgets.rooms import gallery
from widgets.session.answers import PictureContext
from widgets.session.handlers import time_shown
from widgets.session.session import Session

OF_TILES = ("roller", "memory_lines", "staircase", "tile_program", "banks")
PANES = ((918, 350), (660, 300), (380, 300))  # beside drawers, over code
OF_PROGRAMS = ("stages", "dataflow", "changes", "layout", "relax", "levels", "memory")
PICTURES = (*OF_TILES, *OF_PROGRAMS, "grinder", "crossing", "iterations")
tensor = explorer.tensor


@explorer.trace
def product(a: tensor("float32", 300, 200), b: tensor("float32", 200, 500)) -> Any:
    return enp.matmul(a, b)


@explorer.trace
def elementwise(a: tensor("float32", 1000, 64), b: tensor("float32", 1000, 64)) -> Any:
    return enp.tanh(a + b)


@explorer.trace
def symbolic(x: tensor("float32", "n", 16), w: tensor("float32", 16, 16)) -> Any:
    h = x[0]
    for row in x:
        h = enp.tanh(h @ w + row)
    return h


MODELS: dict[str, Callable[[], Session]] = {
    "product": lambda: Session(explorer.compile(product, until="planned")),
    "convolutions": lambda: Session(explorer.compile(DATA / "tiny_resnet18.onnx", until="planned")),
    "tiny_bert": lambda: Session(explorer.compile(DATA / "tiny_bert.onnx", until="planned")),
    "loop": lambda: _ran(collatz, n=np.int64(27)),
    "elementwise": lambda: Session(explorer.compile(elementwise, until="planned")),
    "one of each size": lambda: Session(
        explorer.compile(symbolic, until="planned"), sizes={"n": 1}
    ),
}


def _ran(model: Any, **inputs: Any) -> Session:
    session = Session(explorer.compile(model), inputs=inputs)
    time_shown(session, gallery.find_picture("iterations"), "")
    return session


@cache
def session_of(model: str) -> Session:
    return MODELS[model]()


@pytest.mark.parametrize("size", (*ALL_SIZES, *PANES))
@pytest.mark.parametrize("model", MODELS)
def test_no_word_is_cut_or_covered(model: str, size: tuple[int, int]) -> None:
    session = session_of(model)
    ops = ["", *(o.name for o in session.house.operators[:: 1 + len(session.house.operators) // 4])]
    for name in PICTURES:
        for device in ("", "v100") if name in OF_TILES else ("",):
            for op in ops:
                view = View(device=device, width=size[0], height=size[1])
                _, figure, table = gallery.find_picture(name).draw(
                    PictureContext(session, view), op
                )
                assert figure is not None
                if table.rows and table.rows != (("none",),):
                    assert (figure.width, figure.height) == size, (name, device, op)
                    assert problems(figure) == [], (name, device, op)
