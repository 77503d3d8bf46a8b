"""Why units idled in a measured wall, where calls run again and again and all units meet."""

from explorer.ir.decisions.wall import Brick
from explorer.runtime.binding.measured_wall import _gaps

A, B, C = "a", "b", "c"
NO = frozenset[str]()


def trips(count: int) -> list[Brick]:
    """Unit 0 runs `a` for 90 us a trip; unit 1 runs `c`, then `b`, which reads `a`."""
    found = []
    for n in range(count):
        at = 200.0 * n
        found += [
            Brick(0, at, at + 90, A, 0, 1, NO, iteration=n),
            Brick(1, at, at + 5, C, 0, 1, NO, iteration=n),
            Brick(1, at + 91, at + 100, B, 0, 1, NO, iteration=n),
        ]
    return sorted(found, key=lambda b: (b.start_us, b.unit))


def test_every_trip_waits_for_its_own_writer() -> None:
    gaps = _gaps(trips(3), {B: frozenset([A])}, 2, 0.0, 500.0)
    for n in range(3):
        at = 200.0 * n
        mine = {
            g.cause: (g.start_us, g.end_us)
            for g in gaps
            if g.unit == 1 and at <= g.start_us < at + 95
        }
        assert mine["dependency"] == (at + 5, at + 90)
        assert "preempted" not in mine


def test_between_trips_a_unit_waits_for_whoever_ends_last() -> None:
    bricks = [
        Brick(0, 0, 150, A, 0, 1, NO, iteration=0),
        Brick(1, 0, 10, C, 0, 1, NO, iteration=0),
        Brick(0, 151, 160, A, 0, 1, NO, iteration=1),
        Brick(1, 151, 160, C, 0, 1, NO, iteration=1),
    ]
    gaps = [g for g in _gaps(sorted(bricks, key=lambda b: b.start_us), {}, 2, 0.0, 160.0) if g.unit]
    assert gaps[0].end_us == 150 and gaps[-1].start_us == 150 and gaps[-1].end_us == 151
    assert "preempted" not in {g.cause for g in gaps}
