"""Construction by enlargement with backtracking (Roller, figure 7). No kernel runs.

It starts from one point and enlarges the axis that saves most, level by level, then goes back for
the next best.

The score of an axis is the traffic that a longer tile saves, by the paper or by its artifact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import ne
from typing import Literal

from explorer.roller.construct.alignment import keeping_shape, tensor_shape
from explorer.roller.construct.levels import Larger, LevelRules, Room
from explorer.roller.construct.rtile import RTile, TiledProgram, intensity, whole_tile
from explorer.roller.construct.steps import ConstructionStep, Round, Verdict

MOST_STATES = 500  # of one round; a bound on search time, chosen

Sizes = tuple[tuple[int, ...], ...]
Shape = tuple[int, ...]


@dataclass(slots=True)
class _State:
    """A tile to visit.

    `tiles` are its level's and all nearer ones. `sizes` are the remaining sizes of each axis, the
    present one first.
    """

    tiles: tuple[RTile, ...]
    sizes: Sizes
    level: int
    parent: int
    axis: str = ""
    score: float = 0.0
    last: tuple[RTile, ...] = ()
    rooms: tuple[Room, ...] = ()

    @property
    def larger(self) -> Larger:
        return tuple([row[1] if len(row) > 1 else None for row in self.sizes])

    @property
    def key(self) -> tuple[Shape, ...]:
        return tuple([t.shape for t in self.tiles])


@dataclass(slots=True)
class Search:
    """Rounds of one construction: eps grows until there are `top_k` results.

    Rounds share most tiles: their needs and scores, which do not depend on eps, are cached.
    """

    rules: LevelRules
    score: Score
    top_k: int
    unit: RTile
    each: int  # results with one register tile, at most
    records_steps: bool = True
    steps: list[ConstructionStep] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    regular: bool = False  # True after a result at any eps
    eps: float = 0.0
    dropped: bool = True  # True if eps excluded an aligned size in the last round
    results: list[tuple[RTile, ...]] = field(default_factory=list)
    results_by_register_tile: Counter[Shape] = field(default_factory=Counter)
    borders: dict[tuple[Shape, ...], tuple[RTile, ...]] = field(default_factory=dict)
    small: bool = False  # True if tiles that cannot be enlarged are results
    visited: set[tuple[Shape, ...]] = field(default_factory=set)
    needs: dict[tuple[Shape, ...], tuple[RTile, tuple[Room, ...]]] = field(default_factory=dict)
    worths: dict[Shape, tuple[float, ...]] = field(default_factory=dict)
    aligned: dict[tuple[Shape, int], Sizes] = field(default_factory=dict)
    nearest: int = field(init=False)  # the level of the registers

    def __post_init__(self) -> None:
        """Set the level of the registers."""
        self.nearest = len(self.rules.levels) - 1

    def run(self, eps_step: float, eps_cap: float, choice: float) -> tuple[TiledProgram, ...]:
        """Return the results of all rounds, those of a smaller eps first.

        There is at least one if any tile fits. Tiles at the border of a memory stand in for a round
        without regular result. If no round has either, no tile filled execution units, as in small
        operators: then tiles end where the operator or a memory does, filled or not.
        """
        programs = self._rounds(eps_step, eps_cap, choice)
        if not programs:
            self.small = self.dropped = True
            programs = self._rounds(eps_step, eps_cap, choice)
        return programs

    def _rounds(self, eps_step: float, eps_cap: float, choice: float) -> tuple[TiledProgram, ...]:
        """Run rounds for growing eps.

        A larger eps is tried only if it can change anything, and for more results than one only up
        to `choice`.
        """
        programs: list[TiledProgram] = []
        count = 0
        while len(programs) < self.top_k and self.dropped:
            if count * eps_step > (choice if programs else eps_cap) + 1e-9:
                break
            self._round(round(count * eps_step, 6))
            new = [TiledProgram(t, border=self.small) for t in self.results]
            if not new:
                borders = list(self.borders.values())[: self.top_k]
                new = [TiledProgram(t, border=True) for t in borders]
            shapes = {tuple(t.shape for t in p.tiles) for p in programs}
            programs += [p for p in new if tuple(t.shape for t in p.tiles) not in shapes]
            count += 1
        return tuple(programs[: self.top_k])

    def _round(self, eps: float) -> None:
        self.eps, self.results, self.borders, self.visited = eps, [], {}, set()
        self.results_by_register_tile, self.dropped = Counter(), False
        stack = [self._visits((self.unit,), self.nearest, -1)]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
            elif (key := state.key) not in self.visited and len(self.visited) < MOST_STATES:
                self.visited.add(key)
                stack.append(self._visit(state, key))
        self.rounds.append(Round(eps, len(self.visited), len(self.results), len(self.borders)))

    @property
    def _enough(self) -> bool:
        return len(self.results) >= self.top_k

    def _each_enough(self, state: _State) -> bool:
        """Return True if there are enough results with the register tile of a state."""
        if state.level == self.nearest:
            return False
        return self.results_by_register_tile[state.tiles[-2].shape] >= self.each

    def _visits(self, inner: tuple[RTile, ...], level: int, parent: int) -> Iterator[_State]:
        """Yield the first tile of a level: the least aligned sizes above the nearer tile."""
        base = inner[0]
        aligned = self.aligned.get((base.shape, level))
        if aligned is None:
            aligned = self.aligned[base.shape, level] = self.rules.sizes(base, level)
        extents = base.expression.extents
        spatial = 0 if self.rules.clips(level) else base.expression.spatial
        sizes = tuple(
            keeping_shape(n, row, self.eps) if d < spatial else row
            for d, (row, n) in enumerate(zip(aligned, extents, strict=True))
        )
        self.dropped = self.dropped or any(map(ne, map(len, sizes), map(len, aligned)))
        for d, row in enumerate(sizes):
            if not row:
                tile = base.with_size(d, aligned[d][0])
                why = tensor_shape(extents[d], aligned[d][0], self.eps).text
                axis = base.expression.axes[d]
                state = _State((tile, *inner), sizes, level, parent, axis)
                self._record(state, "eps breaks on axis", why)
                return
        tile = RTile(base.expression, tuple(row[0] for row in sizes))
        first = (tile, *inner)
        yield _State(first, sizes, level, parent, last=first)

    def _visit(self, state: _State, key: tuple[Shape, ...]) -> Iterator[_State]:
        """Evaluate one tile, then go down a level if it is saturated, then enlarge it."""
        if self._enough or self._each_enough(state):
            self._record(state, "enough found")
            return
        needs = self.needs.get(key)
        if needs is None:
            tiles = (self.rules.stored(state.tiles, state.level), *state.tiles[1:])
            needs = self.needs[key] = tiles[0], self.rules.rooms(tiles, state.level)
        state.tiles, state.rooms = (needs[0], *state.tiles[1:]), needs[1]
        full = next((r for r in state.rooms if not r.fits), None)
        if full is not None:
            why = f"{full.used} {full.limit}, there are {full.capacity}"
            yield from self._does_not_fit(state, why)
            return
        unit = self.rules.aligned(state.tiles, state.level)
        ends = self.small and not any(state.larger)
        if not unit.holds and not ends:
            number = self._record(state, "grown", unit.text)
        elif not ends and not self.rules.saturated(state.tiles, state.level, state.larger):
            number = self._record(state, "grown")
        elif state.level:
            number = self._record(state, "compute bound: one level down")
            yield from self._visits(state.tiles, state.level - 1, number)
        else:
            number = self._record(state, "result")
            self.regular = True
            self.results.append(state.tiles)
            self.results_by_register_tile[state.tiles[-2].shape] += 1
            if self._enough or self._each_enough(state):
                return
        yield from self._enlarged(state, number)

    def _does_not_fit(self, state: _State, why: str) -> Iterator[_State]:
        """Record that a tile does not fit.

        The last tile that did is a border program. It may go down a level while there is no better
        result.
        """
        level = state.level
        down = level > 0 and not self.regular
        verdict: Verdict = (
            "does not fit: the last one goes one level down" if down else "does not fit"
        )
        number = self._record(state, verdict, why)
        aligned = self.small or self.rules.aligned(state.last, 0).holds
        if level == 0 and aligned and state.last != state.tiles:
            key = tuple(t.shape for t in state.last)
            if key not in self.borders and self._fits(state.last):
                self.borders[key] = state.last
                self._mark_border(state.parent)
        if down:
            yield from self._visits(state.last, level - 1, number)

    def _fits(self, tiles: tuple[RTile, ...]) -> bool:
        return all(r.fits for r in self.rules.rooms(tiles, 0))

    def _mark_border(self, number: int) -> None:
        if number >= 0 and self.steps[number].verdict == "grown":
            self.steps[number] = replace(self.steps[number], verdict="border")

    def _enlarged(self, state: _State, number: int) -> Iterator[_State]:
        tile, names = state.tiles[0], state.tiles[0].expression.axes
        larger = state.larger
        scores = self._scores(tile, larger)
        for d in self.rules.order(tile, scores, state.level):
            size = larger[d]
            if size is None:
                continue
            grown = (tile.with_size(d, size), *state.tiles[1:])
            sizes = (*state.sizes[:d], state.sizes[d][1:], *state.sizes[d + 1 :])
            yield _State(grown, sizes, state.level, number, names[d], scores[d], state.tiles)

    def _scores(self, tile: RTile, larger: Larger) -> tuple[float, ...]:
        """Return the scores of its axes; those of the paper depend on the next size."""
        if self.score == "paper":
            return reuse_scores(tile, larger, self.score)
        scores = self.worths.get(tile.shape)
        if scores is None:
            scores = self.worths[tile.shape] = reuse_scores(tile, larger, self.score)
        return scores

    def _record(self, state: _State, verdict: Verdict, reason: str = "") -> int:
        if not self.records_steps:
            return -1
        tile, level = state.tiles[0], state.level
        number = len(self.steps)
        before = state.last[0].shape if state.axis and state.last else None
        self.steps.append(
            ConstructionStep(
                number, state.parent, self.eps, level, before, tile, state.axis, state.score,
                self.rules.compute_us(tile, level), self.rules.memory_us(tile, level),
                state.rooms, verdict, reason,
            )
        )  # fmt: skip
        return number


Score = Literal["paper", "artifact"]
SCORES: tuple[Score, ...] = ("paper", "artifact")


def reuse_scores(tile: RTile, larger: tuple[int | None, ...], rule: Score) -> tuple[float, ...]:
    """Return the score of enlarging each axis; `larger` are the next aligned sizes.

    "paper": S = (Q(T) - Q(T')) / (F(T') - F(T)), bytes of the operator's traffic saved for each
    byte of room. "artifact": operations a byte of traffic after one step along the axis.
    """
    axes = range(len(tile.shape))
    if rule == "artifact":
        e, shape = tile.expression, tile.shape
        return tuple([intensity(e, (*shape[:d], shape[d] + 1, *shape[d + 1 :])) for d in axes])
    return tuple(0.0 if size is None else _saved(tile, d, size) for d, size in enumerate(larger))


def _saved(tile: RTile, axis: int, size: int) -> float:
    grown = tile.with_size(axis, size)
    saved = operator_traffic(tile) - operator_traffic(grown)
    room = grown.footprint_bytes - tile.footprint_bytes
    if room <= 0:
        return float("inf") if saved > 0 else 0.0
    return saved / room


def operator_traffic(tile: RTile) -> int:
    """Return the bytes that the full operator moves if it is cut into such tiles."""
    return tile.traffic_bytes * whole_tile(tile.expression).count(tile)
