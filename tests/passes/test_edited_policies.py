"""Each room's policy is asked again when what it refers to was edited, in the same process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import explorer
from explorer.cache import Memory
from explorer.compiler.compilation import Compilation
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.passes import snapshots
from explorer.rammer import Options as RammerOptions
from explorer.rammer import Placement, Share
from explorer.roller import Options as RollerOptions
from explorer.roller.policy import candidates
from explorer.welder import Options as WelderOptions
from explorer.welder.policy import ByPairs

MODEL = "tests/data/tiny_skip.onnx"
A_CELL = {
    "welder": """
LIMIT = 1
def wide(merge):
    return len(merge.welded.computes) > LIMIT
def verdict(merge, facts):
    return Candidate("", True, (), "too many" if wide(merge) else "")
policy = ByPairs(verdict)
""",
    "roller": """
LIMIT = 1
def cost(candidate):
    return candidate.cost_us
def policy(kernel, device, env, sizes):
    found = [c for c in candidates(kernel, device, env, sizes) if not c.refused]
    found.sort(key=cost)
    yield from found[LIMIT - 1:] or found[-1:]
""",
    "rammer": """
LIMIT = 1
def unit(facts):
    return min(LIMIT, facts.device.units) - 1
def policy(facts):
    own = tuple(Share(n, unit(facts), 0, o.tasks) for n, o in enumerate(facts.operators))
    return Placement((own,))
""",
}


def groups(c: Compilation) -> Any:
    return c.program.decisions.tile_graph


def tilings(c: Compilation) -> Any:
    return c.program.decisions.tilings


def units(c: Compilation) -> Any:
    return {b.unit for b in c.planned_wall().bricks}


LOOKS: dict[str, tuple[str, Callable[..., Any], Callable[[Compilation], Any]]] = {
    "welder": ("welded", WelderOptions, groups),
    "roller": ("rolled", RollerOptions, tilings),
    "rammer": ("planned", RammerOptions, units),
}


@pytest.mark.parametrize("room", LOOKS)
@pytest.mark.parametrize("edit", ["LIMIT = 2", "helper"])
def test_what_is_edited_is_asked_anew(
    room: str, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell: dict[str, Any] = {
        "__name__": "__main__", "Candidate": Candidate, "ByPairs": ByPairs, "Share": Share,
        "candidates": candidates, "Placement": Placement, "Tiling": Tiling, "Micro": Micro,
    }  # fmt: skip
    exec(A_CELL[room], cell)
    until, options, look = LOOKS[room]

    def compiled() -> Any:
        chosen = explorer.Options(**{room: options(policy=cell["policy"])})
        return look(explorer.compile(MODEL, "cpu", chosen, until))

    first = compiled()
    assert compiled() == first
    if edit == "helper":
        name, text = {
            "welder": ("wide", "def wide(merge):\n    return len(merge.welded.computes) > 3"),
            "roller": ("cost", "def cost(c):\n    return -c.cost_us"),
            "rammer": ("unit", "def unit(facts):\n    return facts.device.units - 1"),
        }[room]
        assert name in cell
        exec(text, cell)
    else:
        exec(edit, cell)
    now = compiled()
    monkeypatch.setattr(snapshots, "memo_of", lambda key, program: Memory())
    assert now == compiled()
    assert now != first
