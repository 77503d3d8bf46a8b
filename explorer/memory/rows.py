"""Rows of a memory plan: storages, buffers and views of one binding, and its bytes by position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from explorer.grinder import UProgram
from explorer.ir.compiled_dims import compile_dims
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan, StoragePlacement
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.memory.extents import Extents
from explorer.memory.plan import aligned
from explorer.memory.storages import Storage, StoragePlan, Token


class StorageLayout:
    """Offsets of storages for any binding: aligned storages one after the other."""

    def __init__(self, plan: StoragePlan) -> None:
        """Compile the sizes of a plan's storages."""
        self._rooms = compile_dims([s.bytes for s in plan.storages])

    def rooms(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the bytes of each storage."""
        return self._rooms(sizes)

    def offsets(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the offset of each storage, and the end of the last."""
        return tuple(accumulate(map(aligned, self._rooms(sizes)), initial=0))


class StorageRows:
    """A storage plan with its printed formulas, for any binding."""

    def __init__(self, plan: StoragePlan, program: UProgram, env: ShapeEnv) -> None:
        """Print the formulas of a plan."""
        self.layout = StorageLayout(plan)
        self.storages = tuple((s, str(s.bytes)) for s in plan.storages)
        self.tokens = tuple(
            (n, t, str(t.bytes), program.values[t.name].origin)
            for n, s in enumerate(plan.storages)
            for t in s.tokens
        )
        self.is_static = plan.bounded_bytes is not None
        self.formulas = (str(plan.planned), str(plan.naive_upper_bytes))
        self.bounds = tuple(f"{name} <= {env.of(name).high}" for name in plan.bounded)
        self.unbounded = plan.unbounded
        self._token_bytes = compile_dims([t.bytes for _, t, _, _ in self.tokens])
        self._token_rooms = compile_dims([t.upper_bytes for _, t, _, _ in self.tokens])

    def plan(self, sizes: Sizes) -> MemoryPlan:
        """Return the plan of a binding; its naive size is that of one storage for each value."""
        rooms, offsets = self.layout.rooms(sizes), self.layout.offsets(sizes)
        planned, naive = self.formulas
        return MemoryPlan(
            tuple(
                _buffer(token, count, offsets[n], text, origin, self.storages[n][0].name)
                for (n, token, text, origin), count in zip(self.tokens, self._token_bytes(sizes))
            ),
            offsets[-1],
            sum(map(aligned, self._token_rooms(sizes))),
            "storages",
            tuple(
                _storage(storage, text, room, at)
                for (storage, text), room, at in zip(self.storages, rooms, offsets)
            ),
            planned,
            naive,
            offsets[-1] if self.is_static else None,
            bounds=self.bounds,
            unbounded=self.unbounded,
        )


def _buffer(
    token: Token, count: int, offset: int, formula: str, origin: frozenset[str], storage: str
) -> BufferPlacement:
    return BufferPlacement(
        token.name,
        count,
        offset,
        token.first,
        token.last,
        formula,
        "",
        origin,
        storage,
        token.taken,
        token.reason,
    )


def _storage(storage: Storage, formula: str, room: int, offset: int) -> StoragePlacement:
    return StoragePlacement(
        storage.name,
        room,
        offset,
        formula,
        storage.static,
        storage.dtype,
        tuple(t.name for t in storage.tokens),
        storage.block,
        storage.pin_reason,
    )


def with_views(
    memory: MemoryPlan, program: UProgram, extents: Extents, formulas: Mapping[str, str]
) -> MemoryPlan:
    """Return the plan with a row for each view after its root's; `formulas` are the views'."""
    views: dict[str, list[str]] = {}
    for name in formulas:
        views.setdefault(program.values[name].root, []).append(name)
    out: list[BufferPlacement] = []
    for row in memory.buffers:
        out.append(row)
        for name in views.get(row.name, ()):
            out.append(
                BufferPlacement(
                    name,
                    extents.bytes(name),
                    row.offset + extents.offset_bytes(name),
                    row.first,
                    row.last,
                    formulas[name],
                    row.name,
                    program.values[name].origin,
                    row.storage,
                )
            )
    return replace(memory, buffers=tuple(out))


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes by position.

    `naive`: taken if no memory were freed; `planned`: taken by the plan; `live`: of live values, a
    lower bound of every plan.
    """

    naive: tuple[int, ...]
    planned: tuple[int, ...]
    live: tuple[int, ...]

    @property
    def peaks(self) -> tuple[int, int, int]:
        """The greatest of each."""
        return max(self.naive, default=0), max(self.planned, default=0), max(self.live, default=0)


def memory_curve(plan: MemoryPlan) -> MemoryCurve:
    """Return the curve of one binding's plan, either policy's."""
    owners = [row for row in plan.buffers if not row.alias_of]
    count = max((row.last + 1 for row in owners), default=0)
    naive, live = [0] * count, [0] * count
    for row in owners:
        naive[row.first] += row.bytes
    for position, size in _live(owners):
        live[position] += size
    return MemoryCurve(_running(naive), _taken(plan, owners, count), tuple(live))


def _running(added: Iterable[int]) -> tuple[int, ...]:
    total, out = 0, []
    for size in added:
        total += size
        out.append(total)
    return tuple(out)


def _live(owners: Iterable[BufferPlacement]) -> Iterable[tuple[int, int]]:
    """Yield (position, live bytes); a value written in place is counted once."""
    for row in owners:
        first = row.first + (row.taken == "in place")
        yield from ((position, row.bytes) for position in range(first, row.last + 1))


def _taken(plan: MemoryPlan, owners: Iterable[BufferPlacement], count: int) -> tuple[int, ...]:
    """Return the bytes of the arena used so far: storages, or the highest address."""
    if plan.policy == "storages":
        begins: dict[str, int] = {}
        for row in owners:
            begins[row.storage] = min(row.first, begins.get(row.storage, row.first))
        added: defaultdict[int, int] = defaultdict(int)
        for storage in plan.storages:
            added[begins[storage.name]] += storage.bytes
        return _running(added[position] for position in range(count))
    reached = [0] * count
    for row in owners:
        reached[row.first] = max(reached[row.first], row.offset + row.bytes)
    highest, out = 0, []
    for address in reached:
        highest = max(highest, address)
        out.append(highest)
    return tuple(out)
