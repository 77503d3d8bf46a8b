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
from widgets.draw.table import Table
from widgets.model.brick_wall import Call, WallRows, data
from widgets.model.on_show import OnShow
from widgets.model.picture import Draw, Drawn, Family
from widgets.roller.view import device_of

UNITS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_COUNTED = 64  # units: the waits of a data sheet's are millions
BRICKS = (1, 2, 4, 8, 16, 32)
KERNELS = ("", "fastest", "efficient")


@dataclass(frozen=True)
class Rammed:
    """A program as Rammer lays it for a device: `chosen` by the policy of the view, whose name is
    `policy`, and every policy's wall; `own`: on the device that was compiled for. `decided`: what
    was weighed before any wall was laid, for whole products of a recurrent model, and the order
    that was taken.
    """

    device: str
    own: bool
    chosen: PolicyWall
    sides: tuple[PolicyWall, ...]
    calls: tuple[Call, ...]
    policy: str
    decided: tuple[tuple[str, str, tuple[Candidate[bool], ...]], ...] = ()
    order: str = ""

    @property
    def baseline(self) -> PolicyWall:
        """The wall of two-layer scheduling."""
        found = (s for s in self.sides if s.policy == BASELINE)
        return next(found, self.chosen)

    @property
    def kind(self) -> str:
        """What its walls are called."""
        return "planned" if self.own else "simulated on a data sheet"

    def barriers(self, of: PolicyWall) -> str:
        """Waits of one unit for another, where there are few enough units to count them."""
        return f"{of.barriers:,}" if of.wall.units <= MOST_COUNTED else "not counted"

    def rows(self, of: PolicyWall) -> WallRows:
        """The columns of one of its walls."""
        return data(of.wall, self.calls)


def rammed(s: OnShow) -> Rammed:
    """The walls of the view; raises NoSuchDevice or BadOption for what there is not."""
    view = s.view
    key = repr(("rammed", view, s.now.compiled.options.rammer))
    return s.house.kept(key, s.now.sizes, lambda: _rammed(s))


def _rammed(s: OnShow) -> Rammed:
    c: Any = s.now.compiled
    own = s.view.device in ("", c.device.name)
    own_policy = c.options.rammer.policy
    known_as = own_policy if isinstance(own_policy, str) else own_policy.__name__
    if s.view.policy not in ("", known_as, *POLICIES):
        known = ", ".join(POLICIES)
        raise BadOption(f"Rammer has no policy {s.view.policy[:40]!r}", expected=known)
    if s.view.kernels not in KERNELS:
        raise BadOption(f"there are no rKernels {s.view.kernels[:40]!r}")
    sizes = dict(s.now.sizes)
    c, sides = _laid(s, own)
    asked = own_policy if s.view.policy in ("", known_as) else s.view.policy
    mine = next((x for n, x in zip(POLICIES, sides) if n == asked), None)
    if s.view.kernels:
        by_one = replace(c.options.rammer, policy=OneKernel(asked, s.view.kernels))
        mine = policy_wall(c.with_options(rammer=by_one), sizes)
    mine = mine or policy_wall(c, sizes)
    if mine not in sides:
        sides = (mine, *sides)
    decisions = c.program.decisions
    named = asked if isinstance(asked, str) else asked.__name__
    decided = tuple((d.weight, d.chosen, d.candidates) for d in decisions.products)
    return Rammed(c.device.name, own, mine, sides, s.house.calls, named, decided, decisions.order)


def _laid(s: OnShow, own: bool) -> tuple[Any, tuple[PolicyWall, ...]]:
    """The compilation of the view, and its walls under every policy: laid once, whichever policy
    and rKernels are looked at.
    """
    view, now = s.view, s.now.compiled.options.rammer

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
    found, view = rammed(s), s.view
    names = dict.fromkeys(("this-cpu", found.device, *device_names()))
    units = found.chosen.wall.units
    count = sorted({*UNITS, units})
    policies = list(dict.fromkeys((*POLICIES, found.policy)))
    return {
        "devices": list(names),
        "device": found.device,
        "tiles": [],
        "rank": -1,
        "note": "" if found.own else "a data sheet: simulated",
        "more": [
            ["policy", "policy", policies, policies.index(found.policy)],
            ["units", "units", count, count.index(units)],
            ["kernels", "rKernels", list(KERNELS), KERNELS.index(view.kernels)],
            ["bricks", "bricks a share", list(BRICKS), _at(BRICKS, view.bricks or 8)],
        ],
        "action": ["profile", "Measure task times"] if found.own else [],
    }


def _at(values: tuple[int, ...], value: int) -> int:
    return values.index(value) if value in values else 0


WALLS = Family("walls", _controls)


def of_walls(figure: Callable[[Rammed], Svg] | None, table: Callable[[Rammed], Table]) -> Draw:
    """A picture about walls of any device and policy; without a drawing where it is a chart."""

    def draw(s: OnShow, op: str) -> Drawn:
        found = rammed(s)
        return found, figure(found) if figure else None, table(found)

    return draw
