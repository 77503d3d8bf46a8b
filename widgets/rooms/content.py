"""Conditions under which each picture has something to show, and sentences for when it appears.

Evaluating a condition draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.devices.target import target_of
from explorer.ir.calls import Gradient, Loop
from explorer.ir.stage import Stage
from widgets.grinder.iterations import loops
from widgets.grinder.view import crossings
from widgets.model.knobs import symbols
from widgets.model.picture import OnShow
from widgets.program.flow_graph import flow
from widgets.rooms import gallery
from widgets.timed.low_bit import has_matrices
from widgets.timed.one_token import is_decoder
from widgets.training.backward import STEP


class Content(NamedTuple):
    """The condition of a picture.

    `when` continues "Appears …". `holds` returns True if the picture has something to show, or may
    have after a run or a button of its own.
    """

    when: str
    holds: Callable[[OnShow], bool]


def _reached(stage: Stage) -> Content:
    when = f"once a model is compiled through {stage.title}"
    return Content(when, lambda s: s.now.compiled.program.stage >= stage)


def _has_loop(s: OnShow) -> bool:
    def search() -> bool:
        return any(isinstance(b.expr, Loop) for _, b in s.now.compiled.program.bindings())

    return s.house.cached("has a loop", (), search)


def _goes_round(s: OnShow) -> bool:
    if s.walls.measured is not None:
        return bool(loops(s.walls.measured))
    return s.runs and _has_loop(s)


def _has_gradient(s: OnShow) -> bool:
    def search() -> bool:
        steps = (x for x in s.now.compiled.snapshots if x.name == STEP)
        return any(isinstance(b.expr, Gradient) for x in steps for _, b in x.before.bindings())

    return s.house.cached("has a gradient", (), search)


def _has_bricks(s: OnShow) -> bool:
    return s.walls.planned is not None and len(s.walls.planned.start) > 0


def _has_groups(s: OnShow) -> bool:
    graph = s.now.compiled.program.decisions.tile_graph
    return graph is not None and bool(graph.groups)


def _has_connections(s: OnShow) -> bool:
    graph = s.now.compiled.program.decisions.tile_graph
    return graph is not None and bool(graph.edges)


def _has_tiles(s: OnShow) -> bool:
    decisions = s.now.compiled.program.decisions
    return bool(decisions.tilings)


def _has_kernels(s: OnShow) -> bool:
    return s.house.cached("has kernels", (), lambda: bool(s.now.compiled.program.kernel_calls))


def _has_calls(s: OnShow) -> bool:
    return _has_kernels(s) or len(s.now.compiled.program.functions) > 1


def _has_code(s: OnShow) -> bool:
    c = s.now.compiled
    return bool(c.kernels or c.blocks) or (s.runs and _has_kernels(s))


def _has_instructions(s: OnShow) -> bool:
    c = s.now.compiled
    if target_of(c.device).uses_thread_blocks:
        return bool(c.blocks) and bool(flow(c.blocks[0].listings.llvm.text).blocks)
    return _has_code(s)


TILES = Content("for a program with a kernel that Roller tiles", _has_tiles)
GROUPS = Content("for a program with kernels that Welder groups", _has_groups)
WALL = Content("for a program with tasks, once it is scheduled", _has_bricks)
CODE = Content("for a program with a kernel, once its code is generated", _has_code)
GRADIENT = Content("for a program with a gradient", _has_gradient)
NEEDS: dict[str, Content] = {  # by picture; the others have content for every program
    "calls": Content("for a program that calls kernels or functions", _has_calls),
    "grinder": _reached(Stage.TASKED),
    "iterations": Content("for a program with a loop, after a run that goes round it", _goes_round),
    "crossing": Content(
        "for a program with a loop whose sizes are known before a run",
        lambda s: s.plan is not None and _has_loop(s) and bool(crossings(s)),
    ),
    "low_bit": Content("for a program with a product by a constant matrix", has_matrices),
    "welder": GROUPS,
    "curve": GROUPS,
    "connections": Content(
        "for a program with a kernel that reads another's result", _has_connections
    ),
    "groups": GROUPS,
    "roller": TILES,
    "staircase": TILES,
    "waves": TILES,
    "roofline": TILES,
    "search": TILES,
    "tile_program": TILES,
    "banks": Content(
        "for a GPU", lambda s: _has_tiles(s) and target_of(s.now.compiled.device).uses_thread_blocks
    ),
    "memory_lines": TILES,
    "layout": TILES,
    "rammer": WALL,
    "policies": WALL,
    "accept": WALL,
    "layers": WALL,
    "rtasks": WALL,
    "errors": Content(
        "after a run, on this machine or recorded",
        lambda s: _has_bricks(s) and (s.runs or s.walls.ran[0] is not None),
    ),
    "memory": Content(
        "for a program with intermediate values, once memory is planned",
        lambda s: s.plan is not None and bool(s.plan.buffers or s.plan.storages),
    ),
    "peaks": _reached(Stage.PLANNED),
    "sizes": Content(
        "for a model whose inputs have symbolic sizes",
        lambda s: s.walls.planned is not None and bool(symbols(s.now.compiled.model.program)),
    ),
    "codegen": CODE,
    "lines": CODE,
    "flow": Content(
        "for code of a CPU, or of a GPU where NVIDIA's compiler is installed", _has_instructions
    ),
    "inside": Content(
        "for a kernel that runs on this machine", lambda s: s.runs and _has_kernels(s)
    ),
    "kernels": WALL,
    "one_token": Content("for a language model that runs on this machine", is_decoder),
    "backward": GRADIENT,
    "memory_time": GRADIENT,
}


def absent(s: OnShow) -> dict[str, str]:
    """Return the pictures that have nothing to show, by name, with when they appear."""
    needs = ((p.name, NEEDS[p.name]) for p in gallery.PICTURES if p.name in NEEDS)
    return {name: f"Appears {c.when}." for name, c in needs if not c.holds(s)}
