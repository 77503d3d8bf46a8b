"""The walls shown by Rammer's pictures: their device, number of units and policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import explorer
from explorer.devices.catalogue import device_names
from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.plain_text import counted
from explorer.rammer import POLICIES
from explorer.rammer.policy import OneKernel
from explorer.tuning.compare import BASELINE, PolicyWall, compare_policies, policy_wall
from widgets.draw.svg import Svg
from widgets.draw.table import Table
from widgets.model.brick_wall import WallCall, WallRows, data
from widgets.model.picture import Draw, Drawn, Family, OnShow, View
from widgets.roller.view import device_of

UNITS = (1, 2, 4, 8, 16, 32, 64, 128)
MORE_UNITS = (8, 16, 32, 64)  # unit counts on which policies may differ
MOST_SEARCHED = 200  # calls; larger walls take over a second each
TELLING = 0.03  # relative to the shortest wall: smaller differences are invisible
MOST_COUNTED = 64  # units; large devices have millions of waits
BRICKS = (1, 2, 4, 8, 16, 32)
KERNELS = ("", "fastest", "efficient")


@dataclass(frozen=True)
class PolicyWalls:
    """A program as Rammer schedules it for a device: the wall of every policy.

    `chosen` is the wall of the view's policy, whose name is `policy`. `own` is True on the device
    compiled for. `decided` holds the decisions made before scheduling (merged products of a
    recurrent model), and `order` is the binding order used. If more units are shown because the
    policies do not differ on fewer, `indistinct_units` is that number, else 0.
    """

    device: str
    own: bool
    gpu: bool
    chosen: PolicyWall
    by_policy: tuple[PolicyWall, ...]
    calls: tuple[WallCall, ...]
    policy: str
    decided: tuple[tuple[str, str, tuple[Candidate[bool], ...]], ...] = ()
    order: str = ""
    indistinct_units: int = 0

    @property
    def spread(self) -> float:
        """The excess of the longest wall over the shortest, as a fraction."""
        times = [x.statistics.total_us for x in self.by_policy]
        return max(times) / min(times) - 1 if min(times, default=0.0) > 0 else 0.0

    @property
    def baseline(self) -> PolicyWall:
        """The wall of two-layer scheduling."""
        matching = (s for s in self.by_policy if s.policy == BASELINE)
        return next(matching, self.chosen)

    @property
    def kind(self) -> str:
        """The source of the walls: predicted, or predicted from a data sheet."""
        return "predicted" if self.own else "predicted from a data sheet"

    @property
    def units(self) -> str:
        """The number of cores, or of SMs of a GPU, each of which holds several lanes."""
        return counted(self.chosen.statistics.cores, "SM" if self.gpu else "core")

    def barriers(self, of: PolicyWall) -> str:
        """Return the number of waits between units, if the units are few enough to count them."""
        return f"{of.barriers:,}" if of.wall.units <= MOST_COUNTED else "not counted"

    def rows(self, of: PolicyWall) -> WallRows:
        """Return the columns of one of its walls."""
        return data(of.wall, self.calls)


def schedule_walls(s: OnShow, units: int = 0) -> PolicyWalls:
    """Return the walls of the view, on `units` units unless the view says how many.

    Raises NoSuchDevice or BadOption for unknown choices.
    """
    view = replace(s.view, width=0, height=0, units=s.view.units or units)
    key = repr(("rammed", view, s.now.compiled.options.rammer))
    return s.house.cached(key, s.now.sizes, lambda: _schedule_view(s, view))


def schedule_differing_walls(s: OnShow) -> PolicyWalls:
    """Return the walls of the view, on enough units for the policies to differ.

    If the view names no number of units, this machine's number is tried first, then larger ones;
    `indistinct_units` then holds the number on which the policies do not differ.
    """
    walls = schedule_walls(s)
    if s.view.units or not walls.own or walls.spread >= TELLING:
        return walls
    here = walls.chosen.wall.units
    few = len(walls.calls) <= MOST_SEARCHED
    for units in (n for n in MORE_UNITS if n > here and few):
        more = schedule_walls(s, units)
        if more.spread >= TELLING:
            return replace(more, indistinct_units=here)
    return walls


def _schedule_view(s: OnShow, view: View) -> PolicyWalls:
    c: Any = s.now.compiled
    own = view.device in ("", c.device.name)
    own_policy = c.options.rammer.policy
    known_as = own_policy if isinstance(own_policy, str) else own_policy.__name__
    if view.policy not in ("", known_as, *POLICIES):
        expected = ", ".join(POLICIES)
        raise BadOption(f"Rammer has no policy {view.policy[:40]!r}", expected=expected)
    if view.kernels not in KERNELS:
        raise BadOption(f"unknown rKernels {view.kernels[:40]!r}", expected=", ".join(KERNELS[1:]))
    sizes = dict(s.now.sizes)
    c, by_policy = _schedule_policies(s, view, own)
    requested = own_policy if view.policy in ("", known_as) else view.policy
    current = next((x for n, x in zip(POLICIES, by_policy) if n == requested), None)
    if view.kernels:
        by_one = replace(c.options.rammer, policy=OneKernel(requested, view.kernels))
        current = policy_wall(c.with_options(rammer=by_one), sizes)
    current = current or policy_wall(c, sizes)
    if current not in by_policy:
        by_policy = (current, *by_policy)
    decisions = c.program.decisions
    named = requested if isinstance(requested, str) else requested.__name__
    decided = tuple((d.weight, d.chosen, d.candidates) for d in decisions.products)
    gpu = target_of(c.device).uses_thread_blocks
    return PolicyWalls(
        c.device.name, own, gpu, current, by_policy, s.house.calls, named, decided, decisions.order
    )


def _schedule_policies(s: OnShow, view: View, own: bool) -> tuple[Any, tuple[PolicyWall, ...]]:
    """Return the compilation of the view and its walls under every policy.

    The result is memoized for all policies and rKernels of the view.
    """
    rammer_options = s.now.compiled.options.rammer

    def lay() -> tuple[Any, tuple[PolicyWall, ...]]:
        c: Any = s.now.compiled if own else _on_data_sheet(s)
        changes = {k: v for k, v in (("threads", view.units), ("bricks", view.bricks)) if v}
        if changes:
            c = c.with_options(rammer=replace(c.options.rammer, **changes))
        return c, compare_policies(c, sizes=dict(s.now.sizes))

    key = repr(("laid", "" if own else view.device, view.units, view.bricks, rammer_options))
    return s.house.cached(key, s.now.sizes, lay)


def _on_data_sheet(s: OnShow) -> Any:
    """Return the model compiled for the view's data sheet, on all of its units."""
    c: Any = s.now.compiled
    rammer = replace(c.options.rammer, threads=0, profile=None)
    key = repr(("data sheet", s.view.device, rammer))
    device, options = device_of(s.view.device), replace(c.options, rammer=rammer)
    return s.house.cached(key, (), lambda: explorer.compile(c.model, device, options))


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of the pictures with their current values."""
    return _build_controls(s, schedule_walls(s))


def _controls_apart(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of the pictures whose policies must differ."""
    return _build_controls(s, schedule_differing_walls(s))


def _build_controls(s: OnShow, walls: PolicyWalls) -> Mapping[str, Any]:
    view = s.view
    names = dict.fromkeys(("this-cpu", walls.device, *device_names()))
    units = walls.chosen.wall.units
    count = sorted({*UNITS, units})
    policies = list(dict.fromkeys((*POLICIES, walls.policy)))
    return {
        "devices": list(names),
        "device": walls.device,
        "tiles": [],
        "rank": -1,
        "note": "" if walls.own else "a data sheet: predicted",
        "more": [
            ["policy", "policy", policies, policies.index(walls.policy)],
            ["units", "thread blocks" if walls.gpu else "cores", count, count.index(units)],
            ["kernels", "rKernels", list(KERNELS), KERNELS.index(view.kernels)],
            ["bricks", "chunks per core", list(BRICKS), _at(BRICKS, view.bricks or 8)],
        ],
        "action": ["profile", "Measure task times"] if walls.own else [],
    }


def _at(values: tuple[int, ...], value: int) -> int:
    return values.index(value) if value in values else 0


WALLS = Family("walls", _controls)
WALLS_APART = Family("walls", _controls_apart)


def of_walls(
    figure: Callable[[PolicyWalls, tuple[int, int], str], Svg] | None,
    table: Callable[[PolicyWalls], Table],
    get_walls: Callable[[OnShow], PolicyWalls] = schedule_walls,
) -> Draw:
    """Return the draw function of a picture about walls; without `figure` it is a chart."""

    def draw(s: OnShow, op: str) -> Drawn:
        policy_walls = get_walls(s)
        return (
            policy_walls,
            figure(policy_walls, s.view.size, op) if figure else None,
            table(policy_walls),
        )

    return draw
