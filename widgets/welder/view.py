"""The group that Welder's pictures show: on a device, under a tile, with the other tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device
from explorer.devices.target import target_of
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
from widgets.model.picture import Draw, Drawn, Family, OnShow, placeholder
from widgets.roller.view import SHEETS, device_of
from widgets.welder.judge_moves import compile_with_moves as welded_for

MOST_APART = 48  # largest group whose kernels are planned separately
NAMES = {"register": "registers", "shared": "shared memory", "DRAM": "memory"}
SHORT = {"register": "regs", "DRAM": "mem"}
NO_GROUPS = "Welder has left no groups."
R = TypeVar("R")


@dataclass(frozen=True)
class WeldedGroup:
    """One group on one device; `own`: it is the device that was compiled for.

    `plan` is the current plan, `used` the one in use; `points` are the tiles of the curve, small
    ones first, and `rank` is the current one, -1 for the plan in use. `apart` are the plans of the
    kernels that the group was made of; `title` is the kernel's display name.
    """

    binding: str
    kernel: Kernel
    group: FusionGroup
    device: Device
    own: bool
    ops: tuple[str, ...]
    plan: GroupPlan
    used: GroupPlan
    points: tuple[TileCost, ...] = ()
    rank: int = -1
    apart: tuple[GroupPlan, ...] = ()
    title: str = ""

    @property
    def in_use(self) -> bool:
        """True if the current plan is that of the compilation."""
        return self.plan.tile == self.used.tile


def tile_words(tile: Sequence[tuple[str, int]]) -> str:
    """Return a tile's sizes by axis as text."""
    return " ".join(f"{axis}={size}" for axis, size in tile) or "uncut"


def level_name(level: str) -> str:
    """Return the display name of a memory."""
    return NAMES.get(level, level)


def short_name(level: str) -> str:
    """Return a short name of a memory."""
    return SHORT.get(level, level)


def welded_group(s: OnShow, op: str) -> WeldedGroup | None:
    """Return the group that computes a source operator, else the one that saves most.

    It is planned for the device of the view. Return None if Welder has left no groups. Raises
    BadOption for an unknown device or tile.
    """
    program = s.now.compiled.program
    graph = program.decisions.tile_graph
    group = _group(graph.groups, op) if graph else None
    group_view = group_in_use(s, group) if group else None
    if group_view is None:
        return None
    key = repr(("plans", group_view.binding, group_view.device.name))
    points, apart = s.house.cached(key, s.now.sizes, lambda: _others(s.now, group_view))
    if s.view.rank >= max(1, len(points)):
        raise BadOption(
            f"{group_view.binding} has no tile number {s.view.rank + 1}: "
            f"it has {len(points)} tiles to choose from"
        )
    plan = group_view.plan
    if s.view.rank >= 0:
        tile = dict(points[s.view.rank].tile)
        plan = plan_group(_bound(s.now, group_view.kernel), group_view.device, tile=tile)
    return replace(group_view, plan=plan, points=points, rank=s.view.rank, apart=apart)


def group_in_use(s: OnShow, group: FusionGroup) -> WeldedGroup | None:
    """Return a group under the plan in use, on the view's device, None if it is no kernel."""
    kernel = kernels_of(after_welding(s.now.compiled)).get(group.name)
    if kernel is None:
        return None
    own = s.view.device in ("", s.now.compiled.device.name)
    device: Device = s.now.compiled.device if own else device_of(s.view.device)
    decision = s.now.compiled.program.decisions.tiling(group.name)
    runs = own and target_of(device).is_emitted  # else the tile is not tuned
    tile = decision.chosen if runs and decision else None
    plan = plan_group(_bound(s.now, kernel), device, tile=tile)
    ops, title = tuple(sorted(group.origin)), s.house.label(group.name, group.origin)
    return WeldedGroup(group.name, kernel, group, device, own, ops, plan, plan, title=title)


def _group(groups: tuple[FusionGroup, ...], op: str) -> FusionGroup | None:
    mine = next((g for g in groups if op and op in g.origin), None)
    return mine or max(groups, key=lambda g: g.bytes_before - g.bytes_after, default=None)


def program_for(s: OnShow, device: Device) -> Program:
    """Return the program as Welder leaves it for a device."""
    c = s.now.compiled
    if device.name == c.device.name:
        return after_welding(c)
    program: Program = s.house.cached(
        f"welded for {device.name}", (), lambda: welded_for(c, (), device).program
    )
    return program


def group_in_program(s: OnShow, w: WeldedGroup, program: Program, op: str) -> WeldedGroup:
    """Return the same view of a program with other groups."""
    graph = program.decisions.tile_graph
    groups = graph.groups if graph else ()
    group = next((g for g in groups if op and op in g.origin), None)
    group = group or next((g for g in groups if w.binding in g.members), w.group)
    kernel = kernels_of(program).get(group.name, w.kernel)
    plan = plan_group(_bound(s.now, kernel), w.device)
    ops, title = tuple(sorted(group.origin)), s.house.label(group.name, group.origin)
    group_view = replace(w, binding=group.name, kernel=kernel, group=group, plan=plan, ops=ops)
    return replace(group_view, title=title)


def greatest_groups(s: OnShow, count: int) -> tuple[str, ...]:
    """Return the names of the groups that save most memory traffic."""
    graph = s.now.compiled.program.decisions.tile_graph
    groups = graph.groups if graph else ()
    ranked = sorted(groups, key=lambda g: g.bytes_after - g.bytes_before)
    return tuple(g.name for g in ranked[:count])


def after_welding(c: Compiled) -> Program:
    """Return the program that Welder left, before tiles and layouts changed its kernels."""
    steps = [x.after for x in c.snapshots if x.stage == Stage.WELDED]
    return steps[-1] if steps else c.program


def before_welding(c: Compiled) -> Program:
    """Return the program before Welder, in which every operator is a kernel."""
    steps = [x.before for x in c.snapshots if x.stage == Stage.WELDED]
    return steps[0] if steps else c.program


def kernels_of(program: Program) -> Mapping[str, Kernel]:
    """Return every kernel by its binding."""
    return {b.name: b.expr.kernel for b in program.kernel_calls if isinstance(b.expr, KernelCall)}


Others = tuple[tuple[TileCost, ...], tuple[GroupPlan, ...]]


def _others(now: Setting, w: WeldedGroup) -> Others:
    """Return the tiles of the curve, and the plans of the separate kernels."""
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
    """Return a kernel at the current sizes."""
    return bind_kernel(kernel, {**now.compiled.program.env.hints, **dict(now.sizes)})


def _devices(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choice of devices of a picture that shows only the tiles in use."""
    rows = welded_group(s, op)
    if rows is None:
        return {}
    names = dict.fromkeys(("this-cpu", rows.device.name, *device_names()))
    return {
        "devices": list(names),
        "device": rows.device.name,
        "tiles": [],
        "rank": rows.rank,
        "first": -1,
        "note": ""
        if target_of(rows.device).is_emitted and rows.own
        else "a data sheet: predictions only",
    }


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of devices and tiles with their current values."""
    rows = welded_group(s, op)
    tiles = ["in use", *(tile_words(p.tile) for p in rows.points)] if rows else []
    return {**_devices(s, op), "tiles": tiles} if rows else {}


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    group_view = welded_group(s, op)
    return group_view.ops if group_view else ()


GROUPS = Family("groups", _controls, _about, greatest_groups, SHEETS)
GROUPS_IN_USE = replace(GROUPS, controls=_devices, sheets=())


def of_group(
    data: Callable[[WeldedGroup], R],
    figure: Callable[[R, tuple[int, int], str], Svg],
    table: Callable[[R], Table],
) -> Draw:
    """Return the draw function of a picture about the tiles of one group."""

    def draw(s: OnShow, op: str) -> Drawn:
        group_view = welded_group(s, op)
        if group_view is None:
            return placeholder(NO_GROUPS)
        rows = data(group_view)
        return rows, figure(rows, s.view.size, op), table(rows)

    return draw
