"""A group's operators over the memory levels: the handover level of each value, and the kernels.

With a cut level, only values down to that level stay inside a kernel (Welder, section 3). In a
drawing, operators stand in columns and memory levels are lanes below them; operators that do not
fit are folded into one column with a count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from explorer.cached_property import cached_property
from explorer.compiler.operators import call_family, in_words
from explorer.cost.bind_kernel import bind_kernel
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import GroupPlan, LevelBytes
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.welder.groups import Group
from explorer.welder.regroup import Kernels, tensor_of
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.plan import plan_group
from explorer.welder.what_if import by_position, together
from widgets.draw.slide import NARROW, fold_columns, name_lines
from widgets.model.house import House
from widgets.welder.view import MOST_APART, WeldedGroup

OFF = "off"  # the cut level at which every operator is a kernel
WIDEST, LEAST, LEAST_NARROW = 232.0, 84.0, 60.0  # pixels of a column
LOW, TALL = 34.0, 100.0  # minimum height of a lane, and of one with two rows
LEGEND, THIN, RIGHT = 30.0, 30.0, 44.0  # RIGHT holds the result's name
ENTRY, FAR, INPUT, OUT = 0.24, 0.42, 0.54, 0.76  # x of lines as shares of an operator's column


@dataclass(frozen=True, slots=True)
class Operator:
    """A kernel before fusion: its binding, label, family, and the source operators it computes.

    `outside`: it belongs to another group.
    """

    name: str
    label: str
    family: str
    ops: tuple[str, ...]
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A value between operators, which are given by position.

    `level` is where it is handed over, `tile` the part handed over at once (() if unknown), and
    `full` its entire shape.
    """

    tensor: str
    label: str
    source: int
    readers: tuple[int, ...]
    level: str
    tile: tuple[int, ...]
    tile_bytes: int
    full: tuple[int, ...]
    bytes: int
    movable: bool = False


@dataclass(frozen=True, slots=True)
class Outer:
    """A tensor that operators read from memory, or a result that one writes there.

    `what`: "weight", "input", the name of the operator that computed it, or "output"; `ops` are the
    source operators that computed it, and `why` is the reason that they are not in the group.
    """

    tensor: str
    label: str
    what: str
    operators: tuple[int, ...]
    full: tuple[int, ...]
    bytes: int
    ops: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class PipelineRows:
    """One group at one cut level.

    `kernels`: the operators of each kernel; `usage` of the memories, nearest first;
    `traffic`: bytes to and from memory of these kernels; `apart`: the same for one kernel per
    operator.
    """

    title: str
    device: str
    own: bool
    levels: tuple[str, ...]
    operators: tuple[Operator, ...]
    values: tuple[Value, ...]
    inputs: tuple[Outer, ...]
    outputs: tuple[Outer, ...]
    kernels: tuple[tuple[int, ...], ...]
    usage: tuple[LevelBytes, ...]
    traffic: int
    apart: int
    cut: str
    cuts: tuple[str, ...]
    plan: GroupPlan
    in_use: bool
    left_out: int = 0

    @property
    def inner(self) -> tuple[Value, ...]:
        """The values that never reach memory."""
        return tuple(v for v in self.values if v.level != self.levels[-1])


def data(
    w: WeldedGroup, before: Program, house: House, sizes: Sizes, cut: str = ""
) -> PipelineRows:
    """Return the rows of a group; `cut` is one of its cuts, "" for the group as it is."""
    scene = Scene(w, before, house, sizes)
    last = scene.frame(None)
    cuts = scene.cuts(last)
    if cut and cut in cuts[:-1]:
        return replace(scene.frame(cut, last), cuts=cuts, cut=cut)
    return replace(last, cuts=cuts, cut=cuts[-1])


@dataclass(frozen=True)
class Scene:
    """The kernels of a group before fusion, in program order, with `beside` of other groups."""

    welded: WeldedGroup
    before: Program
    house: House
    sizes: Sizes
    beside: frozenset[str] = frozenset()
    calls: Mapping[str, Binding] = field(init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the kernel calls of the group and of `beside`, by name."""
        mine = {*self.welded.group.members, *self.beside}
        body = (b for f in self.before.functions for b in f.body)
        calls = {b.name: b for b in body if isinstance(b.expr, KernelCall) and b.name in mine}
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "names", tuple(calls))

    @property
    def levels(self) -> tuple[str, ...]:
        """The memories, nearest first."""
        return tuple(m.name for m in memories(self.welded.device))

    def cuts(self, last: PipelineRows) -> tuple[str, ...]:
        """Return the distinct cut levels: off, and each level at which a value is handed over."""
        used = {v.level for v in last.inner}
        if not used or len(self.names) > MOST_APART or not self._groups(()):
            return (self.levels[-1],)
        return (OFF, *(level for level in self.levels if level in used))

    def frame(self, cut: str | None, last: PipelineRows | None = None) -> PipelineRows:
        """Return the group with values down to level `cut` inside, or as it is for None."""
        w = self.welded
        inside = set(w.group.members[:-1])
        if cut is not None and last is not None:
            reach = -1 if cut == OFF else self.levels.index(cut)
            inside = {v.tensor for v in last.inner if self.levels.index(v.level) <= reach}
        groups = self._groups(inside)
        if cut is None:  # the plan of the picture's own kernel
            everything = (tuple(range(len(self.names))),)
            single = len(groups) == 1  # columns computed by two kernels belong to no new group
            plans = [self._plan(g, as_planned=True) for g in groups if single]
            where = _handover_places(groups, plans, self.levels) if single else self._decided()
            return self.rows(where, everything, crossing(w.plan), w.plan.levels)
        plans = [self._plan(g, as_planned=False) for g in groups]
        home = {m: n for n, g in enumerate(groups) for m in g.members}
        kernels = [tuple(i for i, m in enumerate(self.names) if home.get(m) == n)
                   for n in range(len(groups))]  # fmt: skip
        where = _handover_places(groups, plans, self.levels)
        return self.rows(where, kernels, sum(map(crossing, plans)), together(plans))

    def _decided(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return Welder's handover level of each value; the tile is unknown."""
        graph = self.house.compiled.program.decisions.tile_graph
        mine = set(self.welded.group.members)
        edges = [e for e in (graph.edges if graph else ()) if {e.source, e.target} <= mine]
        levels = {e.tensor: e.level if e.level in self.levels else self.levels[1] for e in edges}
        inner = self.welded.group.members[:-1]
        return {m: (levels.get(m, self.levels[0]), ()) for m in inner}

    def rows(
        self,
        where: Mapping[str, tuple[str, tuple[int, ...]]],
        kernels: Sequence[tuple[int, ...]],
        traffic: int,
        usage: Sequence[LevelBytes],
    ) -> PipelineRows:
        """Return the rows where each value is handed over at the level and tile of `where`."""
        w = self.welded
        apart = sum(map(crossing, w.apart)) or traffic
        return PipelineRows(
            w.title,
            w.device.name,
            w.own,
            self.levels,
            tuple(map(self._operator, self.names)),
            tuple(self._values(where)),
            tuple(self._inputs()),
            tuple(self._outputs()),
            tuple(k for k in kernels if k),
            tuple(usage),
            traffic,
            apart,
            "",
            (),
            w.plan,
            w.in_use,
        )

    def _groups(self, inside: Collection[str]) -> tuple[Group, ...]:
        """Return the kernels in which these values are not stored, () if they cannot be built."""
        kernels = Kernels.around(self.before, self.names[-1], self.welded.device)
        if kernels is None or any(n not in kernels.bindings for n in self.names):
            return ()
        return kernels.grouped_as_far_as(self.names, inside)

    def _plan(self, group: Group, *, as_planned: bool) -> GroupPlan:
        w, env = self.welded, self.before.env.at(self.sizes)
        if not as_planned:
            return plan_group(bind_kernel(group.kernel, self.sizes), w.device, env)
        tiling = by_position(Tiling(w.plan.tile), w.kernel, group.kernel)
        return plan_group(bind_kernel(group.kernel, self.sizes), w.device, env, tiling)

    def _operator(self, name: str) -> Operator:
        b = self.calls[name]
        ops = tuple(sorted(b.origin))
        source_operators = [o for o in self.house.operators if o.name in b.origin]
        outside = name in self.beside
        return Operator(
            name, self.house.member(name), call_family(b, source_operators), ops, outside
        )

    def _values(self, where: Mapping[str, tuple[str, tuple[int, ...]]]) -> Iterator[Value]:
        places = {n: i for i, n in enumerate(self.names)}
        for i, name in enumerate(self.names):
            readers = tuple(places[n] for n in self.names if name in _reads(self.calls[n]))
            readers = tuple(r for r in readers if r > i)
            if not readers:
                continue
            level, tile = where.get(name, (self.levels[-1], ()))
            full, size = self._extent(self.calls[name].vars[0])
            tile = full if level == self.levels[-1] else _of_value(tile, full)
            part = size // max(1, prod(full)) * prod(tile) if tile or not full else 0
            label = self.house.member(name)
            yield Value(name, label, i, readers, level, tile, part, full, size)

    def _inputs(self) -> Iterator[Outer]:
        places = {n: i for i, n in enumerate(self.names)}
        readers: dict[Var, list[int]] = {}
        for name in self.names:
            for v in dict.fromkeys(self.calls[name].kernel_call.args):
                if v.name not in places:
                    readers.setdefault(v, []).append(places[name])
        names_of_values = self.house.values
        steps = self.welded.group.steps
        refused = {s.label.split(" into ")[0]: s for s in steps if s.refused}
        origins = {v: b.origin for f in self.before.functions for b in f.body for v in b.vars}
        for v, at in readers.items():
            what = (
                "weight"
                if v.name in self.before.constants
                else names_of_values.get(v.name, "input")
            )
            label, ops = names_of_values.get(v.name, v.name), tuple(sorted(origins.get(v, ())))
            why = in_words(_why(refused[v.name]), names_of_values) if v.name in refused else ""
            yield Outer(v.name, label, what, tuple(at), *self._extent(v), ops, why)

    def _outputs(self) -> Iterator[Outer]:
        """Yield the results that are stored for readers outside."""
        inside = {v for n in self.names for v in _reads(self.calls[n])}
        for i, name in enumerate(self.names):
            if name not in inside or name == self.names[-1]:
                label = self.house.member(name)
                yield Outer(name, label, "output", (i,), *self._extent(self.calls[name].vars[0]))

    def _extent(self, v: Var) -> tuple[tuple[int, ...], int]:
        if not isinstance(v.type, Tensor) or not v.type.is_known:
            return (), 0
        return evaluate_shape(v.type.dims, self.sizes), evaluate_dim(v.type.bytes, self.sizes)


def _why(step: Candidate[bool]) -> str:
    """Return the reason why a value stays outside, and what would change that."""
    if step.why is None or not step.why.change:
        return step.refused
    return f"{step.why.text}; what would change that: {step.why.change}"


def _reads(b: Binding) -> frozenset[str]:
    return frozenset(a.name for a in b.kernel_call.args)


def _of_value(tile: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tile as a part of a value, () if their ranks do not match.

    The value may have more dims of one.
    """
    shape = full if len(tile) == len(full) else tuple(n for n in full if n != 1)
    return tuple(map(min, tile, shape)) if len(tile) == len(shape) else ()


def crossing(plan: GroupPlan) -> int:
    """Return the bytes that cross the border of the farthest memory."""
    return plan.levels[-2].traffic if len(plan.levels) > 1 else plan.levels[-1].traffic


def _handover_places(
    groups: Iterable[Group], plans: Iterable[GroupPlan], levels: Sequence[str]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the handover level and tile of each value inside a kernel, by its plan.

    A value that is no tensor of its own stays in registers, element by element of the output's
    tile.
    """
    handovers: dict[str, tuple[str, tuple[int, ...]]] = {}
    for group, plan in zip(groups, plans, strict=True):
        edges = {e.tensor: e for e in plan.edges}
        out = next((t.tile for t in plan.tiles if t.level == levels[0] and t.tensor == t.node), ())
        for member in group.members[:-1]:
            edge = edges.get(tensor_of(member))
            handovers[member] = (edge.level, edge.reuse_tile) if edge else (levels[0], out)
    return handovers


@dataclass(frozen=True, slots=True)
class Column:
    """The operators of a column: one, or several that are folded."""

    operators: tuple[int, ...]
    x: float
    width: float

    @property
    def folded(self) -> bool:
        """True if it stands for several operators."""
        return len(self.operators) > 1

    def at(self, share: float) -> float:
        """Return the x at a share of its width."""
        return self.x + self.width * share


@dataclass(frozen=True, slots=True)
class Lane:
    """One memory level; `thin` if no value of the group is handed over in it."""

    level: str
    y: float
    high: float
    thin: bool
    tall: bool = False

    @property
    def row(self) -> float:
        """The middle of the boxes of values."""
        return self.y + self.high * (0.27 if self.tall else 0.5) - 2

    @property
    def outer(self) -> float:
        """The middle of the boxes of inputs."""
        return self.y + self.high * 0.74 - 2


@dataclass(frozen=True)
class Layout:
    """Positions in a drawing of `width` by `height` pixels, around the selected operator `on`.

    `even`: values can be moved to every level, so all lanes have the same height, and kernels have
    no boxes.
    """

    rows: PipelineRows
    width: int
    height: int
    on: int = 0
    even: bool = False

    @property
    def narrow(self) -> bool:
        """True if there is room for short text only."""
        return self.width < NARROW

    @property
    def gutter(self) -> float:
        """The width of the lanes' names."""
        return 64.0 if self.narrow else 144.0

    @property
    def top(self) -> float:
        """The top of the operators, below the names of the kernels."""
        return 4.0 if self.even else 32.0

    @property
    def high(self) -> float:
        """The height of an operator."""
        return 50.0 if self.narrow else 56.0

    @property
    def foot(self) -> float:
        """The bottom of the operators."""
        return self.top + self.high

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return as many operators as their names leave room for, the others folded."""
        count, room = len(self.rows.operators), self.width - self.gutter - RIGHT
        room += 32 * self.narrow
        least = LEAST_NARROW if self.narrow else LEAST
        most = max(1, min(count, int(room / least)))
        for shown in range(most, 0, -1):
            parts = fold_columns(count, shown, self.on)
            wide = min(WIDEST, room / len(parts))
            if shown <= 3 or all(self._fits(p, wide - (18 if self.narrow else 28)) for p in parts):
                break
        left = self.gutter + (room - wide * len(parts)) / 2
        return tuple(Column(p, left + i * wide, wide) for i, p in enumerate(parts))

    def _fits(self, part: Sequence[int], room: float) -> bool:
        label = self.rows.operators[part[0]].label if len(part) == 1 else "operators"
        return name_lines(label, room, anywhere=self.narrow) is not None

    @cached_property
    def column_of(self) -> dict[int, int]:
        """Return the column of each operator."""
        return {o: n for n, c in enumerate(self.columns) for o in c.operators}

    @cached_property
    def lanes(self) -> dict[str, Lane]:
        """Return the memory levels from the top down."""
        levels, last = self.rows.levels, self.rows.levels[-1]
        used = {*self.rows.cuts, *(v.level for v in self.rows.values), last, levels[0]}
        used |= set(levels) if self.even else set()
        y = self.foot + 12
        room = self.height - y - LEGEND
        count, unused = sum(n in used for n in levels), sum(n not in used for n in levels)
        if room - THIN * unused < LOW * count:  # no room for unused levels
            levels, unused = tuple(n for n in levels if n in used), 0
        room -= THIN * unused
        tall = not self.narrow and not self.even and 1.7 * room / (count + 0.7) >= TALL
        unit = room / (count + 0.7 * tall)
        lanes_by_level = {}
        for level in levels:
            high = THIN if level not in used else unit * (1.7 if tall and level == last else 1)
            lanes_by_level[level] = Lane(level, y, high, level not in used, tall and level == last)
            y += high
        return lanes_by_level

    @cached_property
    def far(self) -> dict[tuple[int, int], int]:
        """Return the track of each line that skips a column, by source and target column.

        Tracks are numbered within a lane.
        """
        pairs: dict[str, list[tuple[int, int]]] = {}
        for v in self.rows.values:
            for source, target in self.column_pairs(v):
                if target > source + 1:
                    pairs.setdefault(v.level, []).append((source, target))
        return {p: n for mine in pairs.values() for n, p in enumerate(dict.fromkeys(mine))}

    def column_pairs(self, v: Value) -> Iterator[tuple[int, int]]:
        """Yield the source and target columns of a value."""
        source = self.column_of[v.source]
        for target in dict.fromkeys(self.column_of[r] for r in v.readers):
            if target > source:
                yield source, target
