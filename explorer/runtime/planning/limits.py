"""Runs that are refused before anything is laid out: values too large, kernels that take hours."""

from __future__ import annotations

from math import prod

from explorer.budget import check_room
from explorer.errors import TooLarge
from explorer.grinder.calls.rename_symbols import known_sizes
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import ITEM_BYTES
from explorer.runtime.planning.plan import Planner

LONGEST_SECONDS = 3600.0
MOST_BYTES = 1 << 62
GIVEN = ("input", "constant", "host")  # homes of values that a run makes no room for


def check_values(planner: Planner, given: Sizes) -> None:
    """TooLarge where one of the values that a run makes is."""
    program = planner.program
    extents, values = planner.extents(known_sizes(program.words, given)), program.values
    made = [n for n, v in values.items() if v.root == n and v.home not in GIVEN]
    for name in made:
        shape, dtype = extents.shape(name), values[name].type.element
        # Also of one without elements the strides are numbers of 64 bits.
        strides = ITEM_BYTES[dtype] * prod(d for d in shape if d)
        count = extents.bytes(name) if strides < MOST_BYTES else strides
        check_room(count, f"{name!r}, {dtype}{list(shape)},", name)


def check_time(planner: Planner, given: Sizes) -> None:
    """TooLarge where one kernel would run for hours, as modelled: no signal reaches into it."""
    sizes = known_sizes(planner.program.words, given)
    for operator in (o for run in planner.runs for o in run.operators):
        fact = planner.task_facts(operator, sizes)
        seconds = fact.tasks * fact.us / planner.units.units / 1e6
        if seconds > LONGEST_SECONDS:
            raise TooLarge(
                f"{operator.name!r} is one kernel that would run for {seconds / 3600:,.0f} "
                "hours, and could not be interrupted",
                where=operator.name,
                try_="smaller sizes",
            )
