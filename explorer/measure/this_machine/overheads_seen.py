"""What stood between the bricks of real runs: launches, barriers, the step to the next brick."""

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
    """The medians over all gaps of measured walls; 0 where there was no such gap."""
    again: list[float] = []
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
                    again[-1] += us
                else:
                    again.append(us)
    launch_us = median([_launch_us(wall) for wall in walls])
    return Overheads(launch_us, *(median(found or [0.0]) for found in (again, barriers, steps)))


def _gaps(wall: Wall) -> Iterator[tuple[Gap | None, Gap]]:
    """Each gap with the one that ends where it begins, if there is one."""
    for unit in range(wall.units):
        mine = sorted((g for g in wall.gaps if g.unit == unit), key=lambda g: g.start_us)
        for before, gap in zip([None, *mine], mine):
            touches = before is not None and before.end_us == gap.start_us
            yield (before if touches else None), gap


def _launch_us(wall: Wall) -> float:
    """From the beginning of the run to its first brick, and from its last one to the end."""
    if not wall.bricks:
        return wall.total_us
    first = min(b.start_us for b in wall.bricks)
    return first + wall.total_us - max(b.end_us for b in wall.bricks)


def trips_of(parts: Sequence[UTask], wall: Wall) -> Iterator[tuple[str, int]]:
    """Each loop with how many trips it made, on average of the times that it was entered, as far as
    the calls around it tell; at least one. So each recursion with its calls and how deep they
    nested, and in it each branch with how many of these took its first way.
    """
    deepest = {ran.binding: ran.depth for ran in wall.ran}
    bricks: dict[str, list[Brick]] = defaultdict(list)
    for b in wall.bricks:
        bricks[b.call].append(b)

    def times(calls: Sequence[str]) -> int:
        """How often the first of these calls that ran did."""
        seen = ([b.iteration for b in bricks[c]] for c in calls)
        return next((1 + max(found) for found in seen if found), 0)

    def walk(
        inside: Sequence[UTask], entered: int, outermost: int = 0
    ) -> Iterator[tuple[str, int]]:
        for part in inside:
            match part:
                case LoopTask(name=name, body=body):
                    made = times(_calls(body))
                    if made and entered:
                        yield name, max(1, round(made / entered))
                    yield from walk(body, made, outermost)
                case RecursionTask(name=name, body=body, binding=binding):
                    made = times(_calls(body))
                    if made and entered:
                        yield name, max(1, round(made / entered))
                        if deepest.get(binding):
                            yield f"{name}/depth", deepest[binding]
                        yield from walk(body, made, entered)
                case BranchTask(name=name, then=then, orelse=orelse):
                    arms = [times(_calls(arm)) for arm in (then, orelse)]
                    if outermost:
                        first = arms[0] if _calls(then) else entered - arms[1]
                        yield f"{name}/then", round(first / outermost)
                    for arm, seen in zip((then, orelse), arms, strict=True):
                        yield from walk(arm, seen or entered, outermost)
                case _:
                    continue

    yield from walk(parts, 1)


def _calls(parts: Sequence[UTask]) -> list[str]:
    """The calls that every trip makes."""
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
