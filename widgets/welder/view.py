"""Which group, which device and which of its tiles Welder's pictures are about, from what is on
show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

from explorer.cost.bound import bind_kernel
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.welder.tiles.plan import plan_group
from explorer.welder.tiles.tile_costs import TileCost, curve
from widgets.draw.svg import Svg
from widgets.draw.table import Table
from widgets.model.compiled import Compiled
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow
from widgets.model.picture import Draw, Drawn, Family, nothing
from widgets.roller.view import SHEETS, device_of
from widgets.welder.judged import welded as welded_for
from widgets.welder.welded import MOST_APART, Welded, tile_words

NO_GROUPS = "Welder has left no groups."
R = TypeVar("R")


def welded(s: OnShow, op: str) -> Welded | None:
    """The group that computes a source operator, else the one that saves most, on the device of the
    view; None where Welder has left no groups.

    Raises BadOption for a device or a tile that there is not.
    """
    program = s.now.compiled.program
    graph = program.decisions.tile_graph
    group = _group(graph.groups, op) if graph else None
    found = plainly(s, group) if group else None
    if found is None:
        return None
    key = repr(("plans", found.binding, found.device.name))
    points, apart = s.house.kept(key, s.now.sizes, lambda: _others(s.now, found))
    if s.view.rank >= max(1, len(points)):
        raise BadOption(
            f"{found.binding} has {len(points)} tiles to choose from, "
            f"none is number {s.view.rank + 1}"
        )
    plan = found.plan
    if s.view.rank >= 0:
        tile = dict(points[s.view.rank].tile)
        plan = plan_group(_bound(s.now, found.kernel), found.device, tile=tile)
    return replace(found, plan=plan, points=points, rank=s.view.rank, apart=apart)


def plainly(s: OnShow, group: FusionGroup) -> Welded | None:
    """A group under the plan in use, on the device of the view; None where it is no kernel."""
    kernel = kernels_of(after_welding(s.now.compiled)).get(group.name)
    if kernel is None:
        return None
    own = s.view.device in ("", s.now.compiled.device.name)
    device: Device = s.now.compiled.device if own else device_of(s.view.device)
    decision = s.now.compiled.program.decisions.tiling(group.name)
    runs = own and device.kind == "cpu"  # else nobody has refined the tile
    tile = decision.chosen if runs and decision else None
    plan = plan_group(_bound(s.now, kernel), device, tile=tile)
    ops, title = tuple(sorted(group.origin)), s.house.label(group.name, group.origin)
    return Welded(group.name, kernel, group, device, own, ops, plan, plan, title=title)


def _group(groups: tuple[FusionGroup, ...], op: str) -> FusionGroup | None:
    mine = next((g for g in groups if op and op in g.origin), None)
    return mine or max(groups, key=lambda g: g.bytes_before - g.bytes_after, default=None)


def program_for(s: OnShow, device: Device) -> Program:
    """The program as Welder leaves it for a device."""
    c = s.now.compiled
    if device.name == c.device.name:
        return after_welding(c)
    found: Program = s.house.kept(
        f"welded for {device.name}", (), lambda: welded_for(c, (), device).program
    )
    return found


def regrouped(s: OnShow, w: Welded, program: Program, op: str) -> Welded:
    """The same view of a program whose groups are others."""
    graph = program.decisions.tile_graph
    groups = graph.groups if graph else ()
    group = next((g for g in groups if op and op in g.origin), None)
    group = group or next((g for g in groups if w.binding in g.members), w.group)
    kernel = kernels_of(program).get(group.name, w.kernel)
    plan = plan_group(_bound(s.now, kernel), w.device)
    ops, title = tuple(sorted(group.origin)), s.house.label(group.name, group.origin)
    found = replace(w, binding=group.name, kernel=kernel, group=group, plan=plan, ops=ops)
    return replace(found, title=title)


def greatest_groups(s: OnShow, count: int) -> tuple[str, ...]:
    """The groups that save most bytes to and from memory, by name."""
    graph = s.now.compiled.program.decisions.tile_graph
    groups = graph.groups if graph else ()
    ranked = sorted(groups, key=lambda g: g.bytes_after - g.bytes_before)
    return tuple(g.name for g in ranked[:count])


def after_welding(c: Compiled) -> Program:
    """The program that Welder left, before tiles and layouts changed its kernels."""
    steps = [x.after for x in c.snapshots if x.stage == Stage.WELDED]
    return steps[-1] if steps else c.program


def before_welding(c: Compiled) -> Program:
    """The program that Welder found: every kernel on its own."""
    steps = [x.before for x in c.snapshots if x.stage == Stage.WELDED]
    return steps[0] if steps else c.program


def kernels_of(program: Program) -> Mapping[str, Kernel]:
    """Every kernel by its binding."""
    return {b.name: b.expr.kernel for b in program.kernel_calls if isinstance(b.expr, KernelCall)}


Others = tuple[tuple[TileCost, ...], tuple[GroupPlan, ...]]


def _others(now: Setting, w: Welded) -> Others:
    """The tiles of the curve, and the plans of the kernels apart."""
    bound = _bound(now, w.kernel)
    points = curve(bound, w.device)
    if w.plan.tile not in [p.tile for p in points]:
        points = (*points, *curve(bound, w.device, tiles=[dict(w.plan.tile)]))
    single = kernels_of(before_welding(now.compiled))
    members = w.group.members if 1 < len(w.group.members) <= MOST_APART else ()
    apart = tuple(plan_group(_bound(now, single[m]), w.device) for m in members if m in single)
    return tuple(sorted(points, key=_elements)), apart


def _elements(cost: TileCost) -> int:
    return prod(size for _, size in cost.tile)


def _bound(now: Setting, kernel: Kernel) -> Kernel:
    """A kernel at the sizes on show."""
    return bind_kernel(kernel, {**now.compiled.program.env.hints, **dict(now.sizes)})


def _devices(s: OnShow, op: str) -> Mapping[str, Any]:
    """What may be chosen in a picture of the tiles in use: devices, with the one on show."""
    rows = welded(s, op)
    if rows is None:
        return {}
    names = dict.fromkeys(("this-cpu", rows.device.name, *device_names()))
    return {
        "devices": list(names),
        "device": rows.device.name,
        "tiles": [],
        "rank": rows.rank,
        "first": -1,
        "note": "" if rows.device.kind == "cpu" and rows.own else "a data sheet: predictions only",
    }


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Devices and tiles, with the ones on show."""
    rows = welded(s, op)
    tiles = ["in use", *(tile_words(p.tile) for p in rows.points)] if rows else []
    return {**_devices(s, op), "tiles": tiles} if rows else {}


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    found = welded(s, op)
    return found.ops if found else ()


GROUPS = Family("groups", _controls, _about, greatest_groups, SHEETS)
GROUPS_IN_USE = replace(GROUPS, controls=_devices, sheets=())


def of_group(
    data: Callable[[Welded], R],
    figure: Callable[[R, tuple[int, int], str], Svg],
    table: Callable[[R], Table],
) -> Draw:
    """A picture about the tiles of one group, drawn for the pixels of the page."""

    def draw(s: OnShow, op: str) -> Drawn:
        found = welded(s, op)
        if found is None:
            return nothing(NO_GROUPS)
        rows = data(found)
        return rows, figure(rows, s.view.size, op), table(rows)

    return draw
