"""Moves of an edge to another memory level: predicted at once, compiled on request.

    WhatIf(compilation).connect("h_12", "L1")   # or .split("h_12"), .join("h_12")

A prediction compiles nothing: the groups that would change are made anew and planned. Each gets the
fastest tile by the model under which the value's reuse tile fits its memory (Welder, section 3.2:
the connect level).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from explorer.cached_property import cached_property
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan, LevelBytes
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.program import Binding, Program
from explorer.welder.groups import Group
from explorer.welder.regroup import Kernels, NotFusible, tensor_of
from explorer.welder.tiles.level_tiles import TilingChoice, fits, tile_at
from explorer.welder.tiles.levels import REGISTER, memories
from explorer.welder.tiles.plan import plan_group

C = TypeVar("C", bound="Welded")


class Welded(Protocol):
    """The part of a compilation that moves need: `explorer.compiler.Compilation` has it."""

    device: Device
    options: Any

    @property
    def program(self) -> Program:
        """The program after the last step."""

    def snapshot(self, name: str) -> Any:
        """Return the step of that name, with the programs before and after it."""

    def with_options(self: C, **groups: Any) -> C:
        """Return the same model with some option groups replaced."""


@dataclass(frozen=True, slots=True)
class MoveState:
    """The groups that a move changes, before or after it.

    `levels`: bytes moved by all of them, and the most that one holds, by memory, nearest first.
    `predicted_us`: their time one after the other, barriers between them included.
    """

    groups: tuple[str, ...]
    plans: tuple[GroupPlan, ...]
    levels: tuple[LevelBytes, ...]
    predicted_us: float

    @property
    def dram_bytes(self) -> int:
        """The bytes to and from the last memory."""
        return self.levels[-2].traffic if len(self.levels) > 1 else 0


@dataclass(frozen=True, slots=True)
class Move(Generic[C]):
    """A value put at a memory level by hand: the state before, and after it or the refusal.

    `reached`: the memory through which the value would pass by the plan, at most as far as `level`.
    `after` is None exactly if `refused` says why.
    """

    value: str
    level: str
    before: MoveState
    after: MoveState | None
    reached: str
    refused: Refusal | None
    tiling: Tiling | None
    compilation: C

    @property
    def gain_us(self) -> float:
        """The predicted time saved; below zero where it would cost time."""
        return 0.0 if self.after is None else self.before.predicted_us - self.after.predicted_us

    def __str__(self) -> str:
        """Return the move in a sentence."""
        head = f"{self.value} at {self.level}: "
        if self.after is None:
            assert self.refused is not None
            return f"{head}{self.refused.text}; to make it possible: {self.refused.change}"
        now, then = self.before, self.after
        return (
            f"{head}{len(now.groups)} to {len(then.groups)} kernels, {now.dram_bytes:,} to "
            f"{then.dram_bytes:,} bytes to and from memory, {now.predicted_us:.2f} to "
            f"{then.predicted_us:.2f} us predicted"
        )

    def compile(self) -> C:
        """Return the changed compilation: the value is at the level, under a tile that fits there.

        Raises:
            BadOption: the move is not legal; the error holds the refusal.
        """
        if self.refused is not None:
            why = self.refused
            raise BadOption(
                f"{self.value} cannot be connected at {self.level}: {why.text}",
                where=self.value,
                expected=why.limit,
                actual=why.value,
                try_=why.change,
            )
        c = self.compilation
        connect = tuple((v, at) for v, at in c.options.welder.connect if v != self.value)
        welder = replace(c.options.welder, connect=(*connect, (self.value, self.level)))
        return self._with_room(c.with_options(welder=welder))

    def _with_room(self, changed: C) -> C:
        """Return the compilation, with its tile pinned if Roller's does not fit."""
        group = group_of(changed, self.value)
        if self.tiling is None or group is None:
            return changed
        binding = binding_of(changed, group.name)
        if binding is None or self._has_room(changed, binding):
            return changed
        roller = changed.options.roller
        pinned = tuple(p for p in roller.pinned if p[0] != group.name)
        tiling = _onto(self.tiling, binding)
        return changed.with_options(roller=replace(roller, pinned=(*pinned, (group.name, tiling))))

    def _has_room(self, changed: C, binding: Binding) -> bool:
        call = binding.kernel_call
        kernels = Kernels.around(
            changed.snapshot("fuse (Welder)").before, self.value, changed.device
        )
        group = group_of(changed, self.value)
        if call.core_tiling is None or kernels is None or group is None:
            return True
        (kernel,) = (g.kernel for g in kernels.grouped(group.members, inside_of(group)))
        tiling = by_position(call.core_tiling, call.kernel, kernel)
        wanted = {tensor_of(self.value): self.level}
        return fits(kernel, tiling, changed.device, changed.program.env, wanted)


class WhatIf(Generic[C]):
    """Moves from one compilation, which is not changed.

    Tiles are those for the hints, as when it is compiled; bytes and times are those at `sizes`, by
    default the hints.
    """

    def __init__(self, compilation: C, sizes: Mapping[str, int] = {}) -> None:
        """Create the moves of a compilation, measured at `sizes`."""
        self.compilation = compilation
        self.sizes = sizes
        self._plans: dict[str, GroupPlan] = {}

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """Return the memories that a value can be put at, nearest first; the last one stores it."""
        return tuple(m.name for m in memories(self.compilation.device))

    def split(self, value: str) -> Move[C]:
        """Return the move that stores a value, so that its producer and readers are separate."""
        return self.connect(value, self.levels[-1])

    def join(self, value: str) -> Move[C]:
        """Return the move of a value to the nearest memory that has room for it, or the refusal."""
        moves = (self.connect(value, level) for level in self.levels[:-1])
        best = next(moves)
        for move in moves:
            if best.refused is None or best.refused.condition not in ("register", "capacity"):
                break
            best = move
        return best

    def connect(self, value: str, level: str) -> Move[C]:
        """Return the move of a value to a memory.

        Raises:
            BadOption: no kernel makes the value, or the device lacks the level.
        """
        kernels, groups = self._around(value, level)
        before = self._now(groups)
        inside = frozenset[str]().union(*(inside_of(g) for g in groups))
        inside = inside - {value} if level == self.levels[-1] else inside | {value}
        members = [m for g in groups for m in g.members]

        def move(
            after: MoveState | None, reached: str, why: Refusal | None, tiling: Any
        ) -> Move[C]:
            return Move(value, level, before, after, reached, why, tiling, self.compilation)

        why = self._disabled_refusal(value, level, kernels) or self._recompute_refusal(
            value, members
        )
        if why is not None:
            return move(None, "", why, None)
        try:
            new_groups = kernels.grouped_as_far_as(members, inside, value)
        except NotFusible as reason:
            return move(None, "", reason.why, None)
        plans, tiling, reached = [], None, level
        for group in new_groups:
            wanted = {tensor_of(value): level} if value in group.members[:-1] else {}
            choice = self._choice(group, groups, wanted, kernels.env)
            if choice.why is not None:
                return move(None, "", choice.why, None)
            env = kernels.env.at(self.sizes)
            plan = plan_group(group.kernel, self._device, env, choice.tiling)
            plans.append(plan)
            if wanted:
                tiling, reached = choice.tiling, _reached(plan, value)
        state = self._state([g.name for g in new_groups], plans)
        return move(state, reached, None, tiling)

    def _choice(
        self, group: Group, groups: Sequence[FusionGroup], wanted: Mapping[str, str], env: ShapeEnv
    ) -> TilingChoice:
        """Return the tile of a new group: that of an old one of the same kernels, if it fits."""
        same = next((g for g in groups if set(g.members) == set(group.members)), None)
        reusable = [] if same is None else self._tilings([same], group.kernel)
        if reusable and fits(group.kernel, reusable[0], self._device, env, wanted):
            return TilingChoice(reusable[0], 0.0)
        return tile_at(group.kernel, self._device, env, wanted, self._tilings(groups, group.kernel))

    @property
    def _device(self) -> Device:
        return self.compilation.device

    def _around(self, value: str, level: str) -> tuple[Kernels, tuple[FusionGroup, ...]]:
        """Return the kernels, and the groups that make or read the value."""
        if level not in self.levels:
            raise BadOption(
                f"{value} cannot be connected at {level!r}: {self._device.name} has no such level",
                where=value,
                expected=", ".join(self.levels),
                actual=level,
            )
        before = self.compilation.snapshot("fuse (Welder)").before
        kernels = Kernels.around(before, value, self._device)
        if kernels is None:
            raise BadOption(f"no kernel makes a value named {value!r}", where=value, actual=value)
        ends = {value, *kernels.readers(value)}
        return kernels, tuple(g for g in self.groups if ends & set(g.members))

    @cached_property
    def groups(self) -> tuple[FusionGroup, ...]:
        """Return the groups of the compilation."""
        graph = self.compilation.snapshot("fuse (Welder)").after.decisions.tile_graph
        return () if graph is None else tuple(graph.groups)

    def _disabled_refusal(self, value: str, level: str, kernels: Kernels) -> Refusal | None:
        """Return why nothing can be fused at all."""
        if level == self.levels[-1]:
            return None
        if not self.compilation.options.welder.enabled:
            text = "fusion is switched off"
            return Refusal("enabled", 0, 1, text, "switch Welder on")
        if not kernels.readers(value):
            return Refusal("readers", 0, 1, "no kernel of the same function reads it")
        return None

    def _recompute_refusal(self, value: str, members: Sequence[str]) -> Refusal | None:
        """Return why a value inside of a product cannot move: several groups compute it."""
        times = Counter(m for g in self.groups for m in g.members)
        twice = next((m for m in members if times[m] > 1 and m != value), None)
        if twice is None:
            return None
        text = f"several groups compute columns of {twice}"
        return Refusal("spread", times[twice], 1, text, f"put {twice} at {self.levels[-1]} first")

    def _now(self, groups: Sequence[FusionGroup]) -> MoveState:
        return self._state([g.name for g in groups], [self._plan(g) for g in groups])

    def _plan(self, group: FusionGroup) -> GroupPlan:
        """Return the plan of a group as it is, under Roller's tile if there is one."""
        if group.name not in self._plans:
            c = self.compilation
            binding = binding_of(c, group.name)
            program = c.program
            if binding is None:
                program = c.snapshot("fuse (Welder)").after
                binding = next(b for b in program.kernel_calls if b.name == group.name)
            call = binding.kernel_call
            tiling = call.core_tiling
            env = program.env.at(self.sizes)
            self._plans[group.name] = plan_group(call.kernel, c.device, env, tiling)
        return self._plans[group.name]

    def _tilings(self, groups: Sequence[FusionGroup], kernel: Kernel) -> list[Tiling]:
        """Return the tiles that Roller chose for existing groups, on the axes of a new one."""
        tilings = []
        for group in groups:
            binding = binding_of(self.compilation, group.name)
            call = None if binding is None else binding.expr
            if isinstance(call, KernelCall) and call.core_tiling is not None:
                tilings.append(by_position(call.core_tiling, call.kernel, kernel))
        return list(dict.fromkeys(tilings))

    def _state(self, names: Sequence[str], plans: Sequence[GroupPlan]) -> MoveState:
        barriers = self._device.barrier_us * max(0, len(plans) - 1)
        total = sum(p.predicted_us for p in plans) + barriers
        return MoveState(tuple(names), tuple(plans), together(plans), total)


def inside_of(group: FusionGroup) -> frozenset[str]:
    """Return the values of a group that are not stored."""
    return frozenset(group.members[:-1])


def group_of(c: Welded, value: str) -> FusionGroup | None:
    """Return the group inside of which a value passes; None if it is stored."""
    graph = c.snapshot("fuse (Welder)").after.decisions.tile_graph
    groups = () if graph is None else graph.groups
    return next((g for g in groups if value in inside_of(g)), None)


def binding_of(c: Welded, name: str) -> Binding | None:
    """Return the kernel call of a group after all steps; None if another step split it."""
    return next((b for b in c.program.kernel_calls if b.name == name), None)


def together(plans: Sequence[GroupPlan]) -> tuple[LevelBytes, ...]:
    """Return the bytes that kernels move in total, and the most that one holds, by memory."""
    by_level: dict[str, list[LevelBytes]] = {}
    for plan in plans:
        for at in plan.levels:
            by_level.setdefault(at.level, []).append(at)
    return tuple(
        LevelBytes(
            name, max(a.footprint for a in all_), all_[0].capacity, sum(a.traffic for a in all_)
        )
        for name, all_ in by_level.items()
    )


def _reached(plan: GroupPlan, value: str) -> str:
    """Return the memory through which a plan passes a value: registers if it is no tensor."""
    return next((e.level for e in plan.edges if e.tensor == tensor_of(value)), REGISTER)


def _axes(kernel: Kernel) -> list[str]:
    return [a.name for a in stores(kernel)[-1].axes]


def by_position(tiling: Tiling, source: Kernel, target: Kernel) -> Tiling:
    """Return a tiling of one kernel on the axes of another, whose output has as many."""
    old, new = _axes(source), _axes(target)
    if len(old) != len(new):
        return tiling
    names: Mapping[str, str] = dict(zip(old, new, strict=True))
    return replace(tiling, tile=tuple((names.get(a, a), n) for a, n in tiling.tile))


def _onto(tiling: Tiling, binding: Binding) -> Tiling:
    """Return the tiling on the axes of a kernel call, without axes that the call lacks."""
    axes = _axes(binding.kernel_call.kernel)
    return replace(tiling, tile=tuple((a, n) for a, n in tiling.tile if a in axes))
