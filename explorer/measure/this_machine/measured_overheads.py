"""Overheads between the bricks of measured walls: launches, barriers, steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from explorer.grinder import BranchTask, LibraryTask, LoopTask, RecursionTask, Straight, UTask
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.rammer import Overheads
from explorer.runtime.planning.timeline import key_of

WAITED = ("dependency", "imbalance")


def overheads_of(walls: Sequence[Wall]) -> Overheads:
    """Return medians over all gaps of measured walls; 0 where there was no such gap."""
    launches: list[float] = []
    barriers: list[float] = []
    steps: list[float] = []
    for wall in walls:
        for before, gap in _gaps(wall):
            us = gap.end_us - gap.start_us
            if gap.cause == "barrier":
                waited = before is not None and before.cause in WAITED
                (barriers if waited else steps).append(us)
            elif gap.cause == "launch" and gap.unit == 0 and gap.start_us > 0.0:
                if before is not None and before.cause == "launch":
                    launches[-1] += us
                else:
                    launches.append(us)
    launch_us = median([_launch_us(wall) for wall in walls])
    return Overheads(
        launch_us, *(median(series or [0.0]) for series in (launches, barriers, steps))
    )


def _gaps(wall: Wall) -> Iterator[tuple[Gap | None, Gap]]:
    """Yield each gap with the one that ends where it begins, if any."""
    for unit in range(wall.units):
        mine = sorted((g for g in wall.gaps if g.unit == unit), key=lambda g: g.start_us)
        for before, gap in zip([None, *mine], mine):
            touches = before is not None and before.end_us == gap.start_us
            yield (before if touches else None), gap


def _launch_us(wall: Wall) -> float:
    """Return the time before the first brick plus that after the last one."""
    if not wall.bricks:
        return wall.total_us
    first = min(b.start_us for b in wall.bricks)
    return first + wall.total_us - max(b.end_us for b in wall.bricks)


def trips_of(parts: Sequence[UTask], wall: Wall) -> Iterator[tuple[str, int]]:
    """Yield each loop with its mean trip count per entry, at least 1.

    The calls of a loop tell how often it ran. Recursions are yielded with their number of calls and
    their depth, and each branch inside one with how often its first arm ran.
    """
    deepest = {ran.binding: ran.depth for ran in wall.ran}
    bricks: dict[str, list[Brick]] = defaultdict(list)
    for b in wall.bricks:
        bricks[b.call].append(b)

    def times(calls: Sequence[str]) -> int:
        """Return how often the first of these calls that ran did."""
        arm_count = ([b.iteration for b in bricks[c]] for c in calls)
        return next((1 + max(iterations) for iterations in arm_count if iterations), 0)

    def walk(
        inside: Sequence[UTask], entered: int, outermost: int = 0
    ) -> Iterator[tuple[str, int]]:
        """Visit the tasks inside a part that was entered so many times."""
        for part in inside:
            match part:
                case LoopTask(name=name, body=body):
                    count = times(_calls(body))
                    if count and entered:
                        yield name, max(1, round(count / entered))
                    yield from walk(body, count, outermost)
                case RecursionTask(name=name, body=body, binding=binding):
                    count = times(_calls(body))
                    if count and entered:
                        yield name, max(1, round(count / entered))
                        if deepest.get(binding):
                            yield f"{name}/depth", deepest[binding]
                        yield from walk(body, count, entered)
                case BranchTask(name=name, then=then, orelse=orelse):
                    arms = [times(_calls(arm)) for arm in (then, orelse)]
                    if outermost:
                        first = arms[0] if _calls(then) else entered - arms[1]
                        yield f"{name}/then", round(first / outermost)
                    for arm, arm_count in zip((then, orelse), arms, strict=True):
                        yield from walk(arm, arm_count or entered, outermost)
                case _:
                    continue

    yield from walk(parts, 1)


def _calls(parts: Sequence[UTask]) -> list[str]:
    """Return the calls that every trip makes."""
    out: list[str] = []
    for part in parts:
        match part:
            case Straight():
                out.append(key_of(part))
            case LibraryTask(name=name):
                out.append(name)
            case _:
                continue
    return out
