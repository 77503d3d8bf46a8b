"""Limits of runs, checked before memory is laid out: values too large, kernels that take hours."""

from __future__ import annotations

from math import prod

from explorer.budget import check_room
from explorer.errors import TooLarge
from explorer.grinder.calls.rename_symbols import extend_sizes
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import ITEM_BYTES
from explorer.runtime.planning.plan import Planner

LONGEST_SECONDS = 3600.0
MOST_BYTES = 1 << 62
NOT_ALLOCATED = ("input", "constant", "host")  # homes of values that a run does not allocate


def check_values(planner: Planner, known_sizes: Sizes) -> None:
    """Check that every value of a run fits into memory.

    Raises:
        TooLarge: A value does not fit.
    """
    program = planner.program
    extents, values = (
        planner.extents(extend_sizes(program.symbol_renaming, known_sizes)),
        program.values,
    )
    roots = [n for n, v in values.items() if v.root == n and v.home not in NOT_ALLOCATED]
    for name in roots:
        shape, dtype = extents.shape(name), values[name].type.element
        # The strides of an array without elements are 64-bit numbers too.
        strides = ITEM_BYTES[dtype] * prod(d for d in shape if d)
        count = extents.bytes(name) if strides < MOST_BYTES else strides
        check_room(count, f"{name!r}, {dtype}{list(shape)},", name)


def check_time(planner: Planner, known_sizes: Sizes) -> None:
    """Check that no kernel would run for hours, as modelled: no signal interrupts it.

    Raises:
        TooLarge: A kernel would.
    """
    sizes = extend_sizes(planner.program.symbol_renaming, known_sizes)
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
