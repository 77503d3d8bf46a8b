"""A rewrite of tile programs is added as one line of `explorer.tile.rewrites`, in `PLACEMENT` or
`LOOPS`.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.devices.model import Device
from explorer.ir.kernel import Const
from explorer.ir.tile_program import Do, TileExpr, TileProgram
from explorer.ir.tile_traversal import with_functions
from explorer.tile import rewrites
from tests.architecture.house import drawn
from widgets.session.session import Session


def numbers_right(p: TileProgram, device: Device) -> TileProgram:
    """After: no sum and no product begins with a number. `0.5 * x` becomes `x * 0.5`."""

    def turned(f: Do) -> TileExpr:
        match f:
            case Do("add" | "mul" as op, (Const() as number, x)):
                return Do(op, (x, number))
        return f

    return replace(p, body=tuple(with_functions(s, turned) for s in p.body))


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        rewrites, "REWRITES", (*rewrites.REWRITES, ("numbers right", numbers_right))
    )
    rewrites.tile_program.cache_clear()
    yield
    rewrites.tile_program.cache_clear()


@explorer.trace
def model(x: explorer.tensor("float32", "n", 29), w: explorer.tensor("float32", 29, 31)):  # type: ignore[no-untyped-def,valid-type]
    return 0.25 * enp.exp(0.5 * (x @ w)), enp.sum(3.0 + 2.0 * x, axis=1)


@pytest.mark.parametrize("rows", [1, 13])
def test_what_it_makes_is_run(rows: int) -> None:
    c = explorer.compile(model)
    r = np.random.default_rng(rows)
    inputs = {
        "x": r.normal(size=(rows, 29)).astype(np.float32),
        "w": r.normal(size=(29, 31)).astype(np.float32),
    }
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    first, second = c.run(inputs).values()
    np.testing.assert_allclose(first, 0.25 * np.exp(0.5 * (x @ w)), 2e-5)
    np.testing.assert_allclose(second, (3 + 2 * x).sum(1), 2e-5)


def test_the_house_and_the_shell_show_what_it_changed(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(explorer.compile(model))
    told = drawn(session, "tile_program")
    assert "changed by" in told and "numbers right" in told.partition("\n")[0]
    assert "data-step" in told and "* 0.25" in told
    from explorer.views.program import rewrites as explained

    text = explained(session.now.compiled, None).text
    before, after = text.split("\n  numbers right\n")[:2]
    assert "0.25 * exp(0.5 * " in before and "* 0.5) * 0.25" in after
