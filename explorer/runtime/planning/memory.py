"""Where a program's values lie, by the policy that was chosen: what no binding changes is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from explorer.errors import BoundError
from explorer.grinder import UProgram
from explorer.ir.decisions import MemoryPlan
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.relax.memory.plan import Buffer, Buffers, Options, Timeline, place, rows
from explorer.relax.memory.storages import StoragePlan, plan_storages
from explorer.runtime.planning.allocations import allocations, steps
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.memory_rows import StorageRows, with_views
from explorer.runtime.planning.timeline import Uses


@dataclass(frozen=True, slots=True)
class Placed:
    """The offset of every root in the arena of one binding, and the arena's bytes."""

    offsets: Mapping[str, int]
    bytes: int


class Memory:
    """Plans memory for any binding. `direct` are the roots that lie in the caller's arrays."""

    def __init__(
        self,
        program: UProgram,
        uses: Uses,
        env: ShapeEnv,
        direct: Mapping[str, int],
        options: Options,
    ) -> None:
        self.program, self.uses, self.env = program, uses, env
        self.direct, self.options = direct, options

    def place(self, sizes: Sizes, extents: Extents, order: Callable[[], Timeline]) -> Placed:
        """The places of one binding; BoundError names a symbol that is above its bound."""
        self._check(sizes)
        if self.by_storages:
            offsets = self._storages.layout.offsets(sizes)
            return Placed({name: offsets[n] for name, n in self._places}, offsets[-1])
        found, end = place(self._buffers, self._sizes(extents), order(), self.options.share)
        return Placed({b.name: at for b, at in zip(self._buffers.all, found)}, end)

    def rows(self, placed: Placed, sizes: Sizes, extents: Extents) -> MemoryPlan:
        """The same to look at, with a row for each view, and with what the results take."""
        if self.by_storages:
            plan = self._storages.plan(sizes)
        else:
            offsets = [placed.offsets[b.name] for b in self._buffers.all]
            plan = rows(self._buffers, self._sizes(extents), offsets, placed.bytes)
        found = with_views(plan, self.program, extents, self._formulas)
        return replace(found, result_bytes=sum(map(extents.bytes, self.program.outputs)))

    @property
    def by_storages(self) -> bool:
        """Whether storages are used, not only planned."""
        return self.options.policy == "storages"

    @cached_property
    def storages(self) -> StoragePlan:
        """Relax's plan, whichever policy runs."""
        found = allocations(self.program, self.uses, self.direct)
        names = {a.name for a in found}
        walk = steps(self.program, self.uses, names, self.options.in_place)
        return plan_storages(found, walk, self.env, self.options)

    @property
    def turns(self) -> list[tuple[int, tuple[int, ...]]]:
        """(a position that writes a storage, the positions that use what lay there before)."""
        out = []
        for storage in self.storages.storages if self.by_storages else ():
            before: tuple[int, ...] = ()
            for token in storage.tokens:
                out += [(write, before) for write in self.uses.writes[token.name] if before]
                before = tuple(sorted(set(self.uses.uses[token.name])))
        return out

    @cached_property
    def _storages(self) -> StorageRows:
        return StorageRows(self.storages, self.program, self.env)

    @cached_property
    def _places(self) -> tuple[tuple[str, int], ...]:
        storages = enumerate(self.storages.storages)
        return tuple((token.name, n) for n, storage in storages for token in storage.tokens)

    @cached_property
    def _buffers(self) -> Buffers:
        """Every root that needs bytes in the arena and is written at all."""
        uses = self.uses
        return Buffers(
            [
                Buffer(
                    name,
                    tuple(uses.writes[name]),
                    tuple(uses.uses[name]),
                    str(value.type.bytes),
                    value.origin,
                )
                for name, value in self.program.values.items()
                if value.root == name
                and value.home == "buffer"
                and name in uses.writes
                and name not in self.direct
            ]
        )

    @cached_property
    def _formulas(self) -> dict[str, str]:
        """The bytes of every view, in words."""
        values = self.program.values.values()
        return {v.name: str(v.type.bytes) for v in values if v.root != v.name}

    def _sizes(self, extents: Extents) -> list[int]:
        return [extents.bytes(b.name) for b in self._buffers.all]

    def _check(self, sizes: Sizes) -> None:
        """Proofs of the plan hold within the bounds only."""
        for name, value in sizes.items():
            known = self.env.of(name)
            if known.high is not None and value > known.high:
                raise _outside(name, value, f"at most {known.high}")
            if self.by_storages and self.options.ordered and value < known.low:
                raise _outside(name, value, f"at least {known.low}")


def _outside(name: str, value: int, limit: str) -> BoundError:
    return BoundError(
        f"{name} is {value} and memory is planned for {limit}",
        where=name,
        expected=limit,
        found=value,
        try_=f"load the model with bounds={{{name!r}: (low, high)}} that allow it",
    )
