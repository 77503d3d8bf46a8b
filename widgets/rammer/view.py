"""Which walls Rammer's pictures are about: of which device, of how many units, by which policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import explorer
from explorer.devices.catalogue import device_names
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.rammer import POLICIES
from explorer.rammer.one_kernel import OneKernel
from explorer.tuning.compare_policies import BASELINE, PolicyWall, compare_policies, policy_wall
from widgets.draw.svg import Svg
from widgets.draw.table import Table, count_text
from widgets.model.brick_wall import Call, WallRows, data
from widgets.model.on_show import OnShow, View
from widgets.model.picture import Draw, Drawn, Family
from widgets.roller.view import device_of

UNITS = (1, 2, 4, 8, 16, 32, 64, 128)
MORE_UNITS = (8, 16, 32, 64)  # of a machine on which policies may differ
MOST_SEARCHED = 200  # calls: every wall of more takes a second
TELLING = 0.03  # of the shortest wall: policies that differ by less look the same
MOST_COUNTED = 64  # units: the waits of a data sheet's are millions
BRICKS = (1, 2, 4, 8, 16, 32)
KERNELS = ("", "fastest", "efficient")


@dataclass(frozen=True)
class Rammed:
    """A program as Rammer lays it for a device: `chosen` by the policy of the view, whose name is
    `policy`, and every policy's wall; `own`: on the device that was compiled for. `decided`: what
    was weighed before any wall was laid, for whole products of a recurrent model, and the order
    that was taken. `few`: on so many units the policies do not differ, so these are more.
    """

    device: str
    own: bool
    gpu: bool
    chosen: PolicyWall
    sides: tuple[PolicyWall, ...]
    calls: tuple[Call, ...]
    policy: str
    decided: tuple[tuple[str, str, tuple[Candidate[bool], ...]], ...] = ()
    order: str = ""
    few: int = 0

    @property
    def spread(self) -> float:
        """How much longer the longest wall is than the shortest, as a share."""
        times = [x.account.total_us for x in self.sides]
        return max(times) / min(times) - 1 if min(times, default=0.0) > 0 else 0.0

    @property
    def baseline(self) -> PolicyWall:
        """The wall of two-layer scheduling."""
        found = (s for s in self.sides if s.policy == BASELINE)
        return next(found, self.chosen)

    @property
    def kind(self) -> str:
        """What its walls are called."""
        return "predicted" if self.own else "predicted from a data sheet"

    @property
    def units(self) -> str:
        """On how many cores it runs, or SMs of a GPU, each of which holds several lanes."""
        return count_text(self.chosen.account.cores, "SM" if self.gpu else "core")

    def barriers(self, of: PolicyWall) -> str:
        """Waits of one unit for another, where there are few enough units to count them."""
        return f"{of.barriers:,}" if of.wall.units <= MOST_COUNTED else "not counted"

    def rows(self, of: PolicyWall) -> WallRows:
        """The columns of one of its walls."""
        return data(of.wall, self.calls)


def rammed(s: OnShow, units: int = 0) -> Rammed:
    """The walls of the view, on so many units where it does not say; raises NoSuchDevice or
    BadOption for what there is not.
    """
    view = replace(s.view, width=0, height=0, units=s.view.units or units)
    key = repr(("rammed", view, s.now.compiled.options.rammer))
    return s.house.kept(key, s.now.sizes, lambda: _rammed(s, view))


def rammed_apart(s: OnShow) -> Rammed:
    """The walls of the view; where it does not say on how many units, on as many as this machine
    has, or on the fewest on which the policies differ, `few` saying of how many they do not.
    """
    found = rammed(s)
    if s.view.units or not found.own or found.spread >= TELLING:
        return found
    here = found.chosen.wall.units
    few = len(found.calls) <= MOST_SEARCHED
    for units in (n for n in MORE_UNITS if n > here and few):
        more = rammed(s, units)
        if more.spread >= TELLING:
            return replace(more, few=here)
    return found


def _rammed(s: OnShow, view: View) -> Rammed:
    c: Any = s.now.compiled
    own = view.device in ("", c.device.name)
    own_policy = c.options.rammer.policy
    known_as = own_policy if isinstance(own_policy, str) else own_policy.__name__
    if view.policy not in ("", known_as, *POLICIES):
        known = ", ".join(POLICIES)
        raise BadOption(f"Rammer has no policy {view.policy[:40]!r}", expected=known)
    if view.kernels not in KERNELS:
        raise BadOption(f"there are no rKernels {view.kernels[:40]!r}")
    sizes = dict(s.now.sizes)
    c, sides = _laid(s, view, own)
    asked = own_policy if view.policy in ("", known_as) else view.policy
    mine = next((x for n, x in zip(POLICIES, sides) if n == asked), None)
    if view.kernels:
        by_one = replace(c.options.rammer, policy=OneKernel(asked, view.kernels))
        mine = policy_wall(c.with_options(rammer=by_one), sizes)
    mine = mine or policy_wall(c, sizes)
    if mine not in sides:
        sides = (mine, *sides)
    decisions = c.program.decisions
    named = asked if isinstance(asked, str) else asked.__name__
    decided = tuple((d.weight, d.chosen, d.candidates) for d in decisions.products)
    gpu = c.device.kind == "gpu"
    return Rammed(
        c.device.name, own, gpu, mine, sides, s.house.calls, named, decided, decisions.order
    )


def _laid(s: OnShow, view: View, own: bool) -> tuple[Any, tuple[PolicyWall, ...]]:
    """The compilation of the view, and its walls under every policy: laid once, whichever policy
    and rKernels are looked at.
    """
    now = s.now.compiled.options.rammer

    def lay() -> tuple[Any, tuple[PolicyWall, ...]]:
        c: Any = s.now.compiled if own else _on_data_sheet(s)
        changes = {k: v for k, v in (("threads", view.units), ("bricks", view.bricks)) if v}
        if changes:
            c = c.with_options(rammer=replace(c.options.rammer, **changes))
        return c, compare_policies(c, sizes=dict(s.now.sizes))

    key = repr(("laid", "" if own else view.device, view.units, view.bricks, now))
    return s.house.kept(key, s.now.sizes, lay)


def _on_data_sheet(s: OnShow) -> Any:
    """The model compiled for the data sheet of the view, with as many units as that has."""
    c: Any = s.now.compiled
    rammer = replace(c.options.rammer, threads=0, profile=None)
    key = repr(("data sheet", s.view.device, rammer))
    device, options = device_of(s.view.device), replace(c.options, rammer=rammer)
    return s.house.kept(key, (), lambda: explorer.compile(c.model, device, options))


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """What may be chosen in the pictures, with what is on show."""
    return _chosen(s, rammed(s))


def _controls_apart(s: OnShow, op: str) -> Mapping[str, Any]:
    """The same in pictures of policies that differ."""
    return _chosen(s, rammed_apart(s))


def _chosen(s: OnShow, found: Rammed) -> Mapping[str, Any]:
    view = s.view
    names = dict.fromkeys(("this-cpu", found.device, *device_names()))
    units = found.chosen.wall.units
    count = sorted({*UNITS, units})
    policies = list(dict.fromkeys((*POLICIES, found.policy)))
    return {
        "devices": list(names),
        "device": found.device,
        "tiles": [],
        "rank": -1,
        "note": "" if found.own else "a data sheet: predicted",
        "more": [
            ["policy", "policy", policies, policies.index(found.policy)],
            ["units", "thread blocks" if found.gpu else "cores", count, count.index(units)],
            ["kernels", "rKernels", list(KERNELS), KERNELS.index(view.kernels)],
            ["bricks", "chunks per core", list(BRICKS), _at(BRICKS, view.bricks or 8)],
        ],
        "action": ["profile", "Measure task times"] if found.own else [],
    }


def _at(values: tuple[int, ...], value: int) -> int:
    return values.index(value) if value in values else 0


WALLS = Family("walls", _controls)
WALLS_APART = Family("walls", _controls_apart)


def of_walls(
    figure: Callable[[Rammed, tuple[int, int], str], Svg] | None,
    table: Callable[[Rammed], Table],
    walls: Callable[[OnShow], Rammed] = rammed,
) -> Draw:
    """A picture about walls of any device and policy; without a drawing where it is a chart."""

    def draw(s: OnShow, op: str) -> Drawn:
        found = walls(s)
        return found, figure(found, s.view.size, op) if figure else None, table(found)

    return draw
