"""Every room with its picture: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from explorer.errors import BadOption
from widgets.draw.svg import Svg, label
from widgets.draw.table import Table
from widgets.grinder import task_tree
from widgets.memory import memory_picture, memory_plan, memory_policies
from widgets.model import dataflow_graph, stage_strip
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.program import generated_source, program_diff
from widgets.rammer import (
    accept_picture,
    brick_wall_picture,
    policies_picture,
    rtasks_picture,
    two_layers_picture,
    wall_table,
)
from widgets.rammer import view as rammer_view
from widgets.relax import (
    call_boundary,
    call_boundary_picture,
    fusion,
    fusion_picture,
    levels,
    levels_picture,
    shape_heap,
    shape_heap_picture,
    shapes,
    shapes_picture,
)
from widgets.roller import (
    rewrites,
    roofline,
    roofline_picture,
    scale_out,
    staircase,
    staircase_picture,
    tile_layout,
    tile_panels,
    tile_panels_picture,
)
from widgets.roller import view as roller_view
from widgets.roller.rolled import Times, View
from widgets.rooms.inspection import Walls
from widgets.welder import (
    connections,
    connections_picture,
    tile_curve,
    tile_curve_picture,
    tile_graph,
    tile_graph_picture,
    tile_stream,
    tile_stream_picture,
)
from widgets.welder import view as welder_view
from widgets.welder.move_state import Hand


class OnShow(Protocol):
    """What a picture is made from: a compilation at a binding of its symbols, its walls and its
    memory plan; for Welder and Roller which device and tile, and the tiles that were timed.
    """

    @property
    def now(self) -> Setting: ...
    @property
    def house(self) -> House: ...
    @property
    def walls(self) -> Walls: ...
    @property
    def plan(self) -> Any: ...
    @property
    def view(self) -> View: ...
    @property
    def hand(self) -> Hand: ...
    def times(self, binding: str) -> Times: ...


Room = Callable[[OnShow, str], tuple[Any, Svg, Table]]


def _stages(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = stage_strip.data(s.now.compiled)
    return rows, stage_strip.figure(rows), stage_strip.table(rows)


def _dataflow(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = s.house.graphs["operators"]
    return rows, dataflow_graph.figure(rows, op), dataflow_graph.table(rows)


def _program(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    """The largest step: from graph operators to kernels, if that was reached."""
    steps = s.now.compiled.snapshots
    step = next((x for x in steps if x.stage.name == "LEGALIZED"), steps[-1])
    rows = program_diff.data(step.before, step.after)
    return rows, program_diff.figure(rows), program_diff.table(rows)


def _relax(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = s.house.kept(
        "relax", s.now.sizes, lambda: shapes.data(s.now.compiled, dict(s.now.sizes), s.plan)
    )
    return rows, shapes_picture.figure(rows, op), shapes_picture.table(rows)


def _heap(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    program, sizes = s.now.compiled.program, dict(s.now.sizes)
    rows = s.house.kept("heap", s.now.sizes, lambda: shape_heap.data(program, sizes))
    return rows, shape_heap_picture.figure(rows), shape_heap_picture.table(rows)


def _calls(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    c = s.now.compiled
    rows = s.house.kept("calls", (), lambda: call_boundary.data(c))
    names = tuple(b.name for b in c.program.env.symbols)
    figure = call_boundary_picture.figure(rows, names, op)
    return rows, figure, call_boundary_picture.table(rows)


def _levels(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    known = s.house.operators
    rows = s.house.kept("levels", (), lambda: levels.data(s.now.compiled, known))
    return rows, levels_picture.figure(rows, op), levels_picture.table(rows)


def _fusion(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = s.house.kept("fusion", (), lambda: fusion.data(s.now.compiled))
    return rows, fusion_picture.figure(rows, op), fusion_picture.table(rows)


def _grinder(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = task_tree.data(s.now.compiled.program)
    return rows, task_tree.figure(rows, op), task_tree.table(rows)


def _groups(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = tile_graph.data(s.now.compiled.program, dict(s.now.sizes))
    convs = [o.name for o in s.house.operators if o.family == "conv"]
    return rows, tile_graph_picture.figure(rows, op, convs), tile_graph.table(rows)


def _layout(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = tile_layout.data(s.now.compiled.program, dict(s.now.sizes))
    return rows, tile_layout.figure(rows, op), tile_layout.table(rows)


def _of_welder(rows_of: Any, picture: Any) -> Room:
    """A room about the tiles of one group."""

    def room(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
        found = welder_view.welded(s, op)
        if found is None:
            return _nothing("Welder has left no groups.")
        rows = rows_of.data(found)
        return rows, picture.figure(rows, op), picture.table(rows)

    return room


def _connections(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    """The connections of one group, as they are or as they were moved by hand."""
    found = welder_view.welded(s, op)
    if found is None:
        return _nothing("Welder has left no groups.")
    outcome = s.hand.on(found.device.name).outcome
    program = outcome.program if outcome else None
    if program is None:
        program = welder_view.program_for(s, found.device)
    found = welder_view.regrouped(s.now, found, program, op)
    graph = program.decisions.tile_graph
    assert graph is not None
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    rows = connections.data(found, welder_view.before_welding(s.now.compiled), graph, sizes)
    return rows, connections_picture.figure(rows, op), connections_picture.table(rows)


def _nothing(said: str) -> tuple[Any, Svg, Table]:
    """A picture of what is not there."""
    said_ = said.removesuffix(".")
    return (), Svg(780, 40, label(12, 24, said, "i"), said_), Table(("tile",), (), (), said_)


def _of_roller(rows_of: Any, picture: Any) -> Room:
    """A room about what Roller made of one kernel."""

    def room(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
        found = roller_view.rolled(s, op)
        if found is None:
            return _nothing("Roller has tiled nothing.")
        rows = rows_of.data(found)
        return rows, picture.figure(rows), picture.table(rows)

    return room


def _rammer(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    planned, measured = s.walls.planned, s.walls.measured
    if planned is None:
        raise BadOption("nothing is scheduled: compile through Rammer")
    compared = s.walls.compared
    figure = brick_wall_picture.figure(planned, measured, op, compared)
    return (planned, measured), figure, wall_table.table(planned, measured, op, compared)


def _of_rammer(picture: Any) -> Room:
    """A room about walls of any device and policy."""

    def room(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
        found = rammer_view.rammed(s)
        return found, picture.figure(found), picture.table(found)

    return room


def _memory(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    rows = memory_plan.data(s.plan)
    c, sizes = s.now.compiled, dict(s.now.sizes)
    policies = s.house.kept("memory", s.now.sizes, lambda: memory_policies.data(c, sizes, s.plan))
    names = tuple(b.name for b in c.program.env.symbols)
    figure = memory_picture.figure(rows, policies, names, op)
    return (rows, policies), figure, memory_picture.table(rows, policies)


def _codegen(s: OnShow, op: str) -> tuple[Any, Svg, Table]:
    kernels = s.now.compiled.kernels
    if not kernels:
        raise BadOption("no kernel was generated: compile through to code")
    rows = generated_source.data(next((k for k in kernels if op in k.origins), kernels[0]))
    return rows, generated_source.figure(rows), generated_source.table(rows)


ROOMS: Mapping[str, tuple[str, Room]] = {
    "stages": ("Stages", _stages),
    "dataflow": ("Dataflow graph", _dataflow),
    "program": ("Program before and after", _program),
    "relax": ("Shapes", _relax),
    "heap": ("Shape heap", _heap),
    "calls": ("Calls", _calls),
    "levels": ("Three levels", _levels),
    "fusion": ("Fusion", _fusion),
    "grinder": ("uTask tree", _grinder),
    "welder": ("Memory levels", _of_welder(tile_stream, tile_stream_picture)),
    "curve": ("Tile curve", _of_welder(tile_curve, tile_curve_picture)),
    "connections": ("What if", _connections),
    "groups": ("Tile graph", _groups),
    "roller": ("Tiles", _of_roller(tile_panels, tile_panels_picture)),
    "staircase": ("Staircase", _of_roller(staircase, staircase_picture)),
    "waves": ("Waves", _of_roller(scale_out, scale_out)),
    "roofline": ("Roofline", _of_roller(roofline, roofline_picture)),
    "tile_program": ("Tile program", _of_roller(rewrites, rewrites)),
    "layout": ("Tune", _layout),
    "rammer": ("Brick wall", _rammer),
    "policies": ("Policies", _of_rammer(policies_picture)),
    "accept": ("Accept rule", _of_rammer(accept_picture)),
    "layers": ("Two layers", _of_rammer(two_layers_picture)),
    "rtasks": ("rTasks", _of_rammer(rtasks_picture)),
    "memory": ("Memory plan", _memory),
    "codegen": ("Generated source", _codegen),
}


def room(name: str) -> tuple[str, Room]:
    """A room's title and picture; raises BadOption where there is none of that name."""
    if name not in ROOMS:
        raise BadOption(
            f"there is no room {name[:40]!r}", where=name[:40], expected=", ".join(ROOMS)
        )
    return ROOMS[name]


def rows(name: str, on_show: OnShow, op: str = "") -> Any:
    """The rows behind a room's picture."""
    return room(name)[1](on_show, op)[0]


def picture(name: str, on_show: OnShow, op: str = "") -> tuple[Svg, Table]:
    """A room's drawing and its words."""
    _, figure, table = room(name)[1](on_show, op)
    return figure, table


ABOUT_WALLS = ("policies", "accept", "layers", "rtasks")  # of any device and policy
ABOUT_GROUPS = ("welder", "curve", "connections")  # of any device and tile
ABOUT_TILES = ("roller", "staircase", "waves", "roofline", "tile_program")  # of any device and tile
