"""Names that steps had are understood wherever users may have kept them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import device_of, pipeline
from explorer.ir.program import Program
from explorer.passes.arrangement import Options as Steps
from explorer.passes.registry import CURRENT_NAMES, current_name
from explorer.rammer import manual_moves
from explorer.runtime.cuda import driver
from explorer.tuning.sensitivity import without
from widgets.session import state


def compiled(model: str) -> Compilation:
    return explorer.compile(model, until="planned")


def test_a_renamed_step_is_in_a_pipeline_under_its_new_name_only() -> None:
    for model in ("zoo:tiny_bert", "zoo:tiny_while"):
        names = {s.name for s in compiled(model).snapshots}
        assert not names & set(CURRENT_NAMES)
    tried = {"measure control-flow schedules", "use 16-bit matrix units"}  # by options and devices
    every = {s.name for s in pipeline(explorer.Options(), device_of("this-cpu"))} | tried
    assert set(CURRENT_NAMES.values()) <= every


def test_snapshots_and_options_take_a_former_name() -> None:
    c = compiled("zoo:tiny_bert")
    assert c.snapshot("weld") is c.snapshot("fuse (Welder)")
    steps = Steps(off=("fold copies into kernels",), moved=(("share equal expressions", ""),))
    assert steps.off == ("fold layout copies",)
    assert steps.moved == (("eliminate common subexpressions", ""),)
    assert not without(c, "weld").options.welder.enabled

    def twice(program: Program) -> Program:
        return replace(program)

    assert explorer.Options(passes=(("roll", twice),)).passes[0][0] == "tile (Roller)"


def test_a_link_that_was_made_before_turns_the_same_switch() -> None:
    knobs = {"step fold copies into kernels": "off", "place share equal expressions": "after weld"}
    text = json.dumps({"ironworks": state.VERSION, "knobs": knobs})
    assert state.parse_state(text).knobs == {
        "step fold layout copies": "off",
        "place eliminate common subexpressions": "after fuse (Welder)",
    }


@pytest.mark.parametrize("name", ["inline calls", "mine", ""])
def test_other_names_stay(name: str) -> None:
    assert current_name(name) == name


def test_documented_import_paths_work_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="PolicyWithMoves"):
        from explorer.rammer.moved_by_hand import ByHand
    with pytest.warns(DeprecationWarning, match="SimulatedDriver"):
        from explorer.runtime.cuda.driver import StandIn
    assert ByHand is manual_moves.PolicyWithMoves and StandIn is driver.SimulatedDriver
    with pytest.raises(ImportError):
        from explorer.runtime.cuda.driver import Nothing  # noqa: F401
