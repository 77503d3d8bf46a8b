"""Knobs: fields of the passes' options and sizes of symbols, each with its legal values.

A turned knob gives another setting. Pinned tiles whose kernels have changed are left to Roller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from explorer.compiler.driver import StepError
from explorer.compiler.options import Options
from explorer.devices.target import target_of
from explorer.errors import BadOption, IronworksError
from explorer.grinder import SCHEDULES
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import SymbolBound, symbols_of
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.passes import policy_call
from explorer.passes.policy_call import policy_name
from explorer.rammer import POLICIES
from explorer.roller import Options as RollerOptions
from explorer.welder import POLICIES as WELDING
from widgets.model import settings
from widgets.model.compiled import Compiled
from widgets.model.knob import SIZE, Knob
from widgets.model.pipeline_knobs import PLACE, PREFIX, SWITCH, own_knobs, step_knobs

OFF = "off"
BY_THE_WALL = "by the wall"
SIZE_LABEL = re.compile(r"\d{1,18}", re.ASCII)
MOST_TILES = 12
MOST_CALLS = 250  # kernels that are planned at once, in about 1.5 s; chosen
FURTHEST = 8  # largest stop of an unbounded symbol as a multiple of its hint; at least 256
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A compilation and the sizes that it is viewed with: what knobs turn.

    `ended` is the error at which the compilation stopped.
    """

    compiled: Compiled
    sizes: tuple[tuple[str, int], ...]
    ended: StepError | None = None

    @property
    def is_here(self) -> bool:
        """True unless it is for hardware that is not here.

        That is a data sheet's, or this machine with other figures.
        """
        device = self.compiled.device
        return bool(device.is_this_cpu) and device.base is None

    def size(self, symbol: str) -> int:
        """Return the value of a symbol."""
        return dict(self.sizes)[symbol]


def first_setting(c: Compiled, sizes: Mapping[str, int] | None = None) -> Setting:
    """Return a compilation at its hints, or at given sizes."""
    chosen = {name: c.program.env.of(name).hint for name in symbols(c.model.program)}
    return Setting(c, tuple(sorted((chosen | dict(sizes or {})).items())))


def symbols(program: Program) -> tuple[str, ...]:
    """Return the symbols of the inputs' shapes, in order of appearance."""
    names: dict[str, None] = {}
    for param in program.main.params:
        if isinstance(param.type, Tensor) and param.type.shape is not None:
            for dim in param.type.shape:
                names.update(dict.fromkeys(sorted(symbols_of(dim))))
    return tuple(names)


def knobs(now: Setting, pinned: Setting, op: str = "", label: str = "") -> tuple[Knob, ...]:
    """Return every knob, in the order of the keys that select them.

    Threads, tile, fusion, policy, control flow if there is any, one per symbol, then those of the
    user's passes. The switchboard's follow, which are shown only there. The tile is that of the
    kernel of `op`, whose label is `label`.
    """
    names = symbols(now.compiled.model.program)
    return (
        _threads(now, pinned),
        _tile(now, pinned, op, label),
        fusion(now, pinned),
        _policy(now, pinned),
        *_control(now, pinned),
        *(_size(now, pinned, name) for name in names),
        *own_knobs(now.compiled, pinned.compiled),
        *step_knobs(now.compiled, pinned.compiled),
    )


def turn_knob(now: Setting, knob: Knob, index: int) -> Setting:
    """Return the setting with one knob at another of its values; raises what compiling raises."""
    if knob.name.startswith(SIZE):
        value = _value(knob, index)
        sizes = dict(now.sizes) | {knob.name.removeprefix(SIZE): value}
        return replace(now, sizes=tuple(sorted(sizes.items())))
    if knob.name == "tile":
        return with_tile(now, *_value(knob, index))
    changed = changed_options(now, knob, index)
    return _scheduled(now, **changed) if set(changed) == {"rammer"} else _planned(now, **changed)


def changed_options(now: Setting, knob: Knob, index: int) -> dict[str, Any]:
    """Return the groups of options that a knob's other value changes: none for a size."""
    value, options = _value(knob, index), now.compiled.options
    match knob.name:
        case "threads":
            return {"rammer": replace(options.rammer, threads=value)}
        case "policy":
            return {"rammer": replace(options.rammer, policy=value)}
        case "control":
            return {"grinder": replace(options.grinder, schedule=value)}
        case "fusion":
            off = value == OFF
            policy = options.welder.policy if off else value
            return {"welder": replace(options.welder, enabled=not off, policy=policy)}
        case "tile":
            return _pinned(now, *value)
        case name if name.startswith(PREFIX):
            return {"passes": value}
        case name if name.startswith((SWITCH, PLACE)):
            return {"steps": value}
        case name if name.startswith(settings.SET):
            return settings.apply_controls(now.compiled, {name.removeprefix(settings.SET): value})
        case _:
            return {}


def _value(knob: Knob, index: int) -> Any:
    if not 0 <= index < len(knob.values):
        raise BadOption(f"{knob.label} has {len(knob.values)} values", where=knob.name)
    return knob.values[index]


def _scheduled(now: Setting, **changed: Any) -> Setting:
    """Return the setting with another schedule of the same code."""
    until = Stage.PLANNED if now.ended else None
    return replace(now, compiled=now.compiled.with_options(until=until, **changed), ended=None)


def _planned(now: Setting, **changed: Any) -> Setting:
    """Return the setting with other options.

    Pinned tiles that are refused under these options are left to Roller.
    """
    roller = changed.pop("roller", now.compiled.options.roller)
    return with_legal_tiles(roller, lambda legal: _compiled(now, **changed, roller=legal))


def _compiled(now: Setting, **changed: Any) -> Setting:
    """Return the setting with other options, compiled up to a plan: the picture needs no code.

    Measured task times are keyed by code; then the code is generated at once.
    """
    c = now.compiled
    measured = getattr(c.options.rammer, "profile", None) is not None
    until = c.program.stage if measured else min(c.program.stage, Stage.PLANNED)
    until = Stage.PLANNED if now.ended else until
    return replace(now, compiled=c.with_options(until=until, **changed), ended=None)


def same_program(now: Setting, knob: Knob, index: int) -> Setting | None:
    """Return the program on show planned for the hardware that a knob selects, before compiling.

    None if the knob changes something else, or if nothing is planned yet. None also if the plan
    would take long or call a user's policy, because it cannot be cancelled.
    """
    c, changed = now.compiled, changed_options(now, knob, index)
    if set(changed) != {settings.HARDWARE} or now.ended or c.program.stage < Stage.PLANNED:
        return None
    ours = all(isinstance(o.policy, str) for o in (c.options.rammer, c.options.memory))
    if not ours or len(c.program.kernel_calls) > MOST_CALLS:
        return None
    return replace(now, compiled=c.same_program(changed[settings.HARDWARE]))


def with_code(now: Setting) -> Setting:
    """Return the setting with its code, generated now if it was only planned."""
    if now.compiled.program.stage is not Stage.PLANNED:
        return now
    return replace(now, compiled=now.compiled.with_options(until=Stage.EMITTED))


def with_tile(now: Setting, binding: str, tiling: Tiling | None) -> Setting:
    """Return the setting with a kernel's tile pinned.

    The tile is left to Roller if it is None, or if Roller chooses it anyway.
    """
    decision = now.compiled.program.decisions.tiling(binding)
    if decision is not None and tiling is not None and not tiling.is_thread_block:
        legal = [c.value for c in decision.candidates if not c.refused]
        # Without a pin, Roller's own choice.
        own = legal[1:2] if decision.pinned else [decision.chosen]
        if tiling in own:
            free = _compiled(now, **_pinned(now, binding, None))
            left = free.compiled.program.decisions.tiling(binding)
            if left is not None and left.chosen == tiling:
                return free
    return _compiled(now, **_pinned(now, binding, tiling))


def _pinned(now: Setting, binding: str, tiling: Tiling | None) -> dict[str, Any]:
    roller = now.compiled.options.roller
    others = tuple(p for p in roller.pinned if p[0] != binding)
    mine = ((binding, tiling),) if tiling is not None else ()
    return {"roller": replace(roller, pinned=(*others, *mine))}


def with_settings(now: Setting, texts: Mapping[str, str]) -> Setting:
    """Return the setting with controls of options and hardware at other texts."""
    return _planned(now, **settings.apply_controls(now.compiled, texts))


def threads(c: Compiled) -> int:
    """Return the number of workers of a wall; 0 in the options stands for every unit."""
    return int(c.options.rammer.threads or c.device.units)


def turn_text(knob: Knob, index: int) -> str:
    """Describe a turn of a knob."""
    return f"{knob.label} {knob.labels[knob.now]} → {knob.labels[index]}"


def _position(values: Sequence[Any], value: Any) -> int | None:
    return next((i for i, v in enumerate(values) if v == value), None)


def _threads(now: Setting, pinned: Setting) -> Knob:
    units = max(now.compiled.device.units, threads(now.compiled))
    values = tuple(n for n in range(1, units + 1) if units <= 16 or n & (n - 1) == 0 or n == units)
    at = _position(values, threads(now.compiled)) or 0
    return Knob(
        "threads",
        "threads",
        "segments" if len(values) <= 4 else "slider",
        values,
        tuple(map(str, values)),
        at,
        _position(values, threads(pinned.compiled)),
        "cores of the schedule; nothing is recompiled",
    )


def fusion(now: Setting, pinned: Setting) -> Knob:
    """Return the knob of Welder: off, or one of its policies."""
    current = _welding(now)
    values = tuple(
        dict.fromkeys([OFF, *WELDING, *policy_call.by_system("welder").values(), current])
    )
    return Knob(
        "fusion",
        "fusion",
        "segments" if len(values) <= 4 else "choice",
        values,
        tuple(_name(v) for v in values),
        _position(values, current) or 0,
        _position(values, _welding(pinned)),
        "how Welder joins kernels, if at all",
    )


def _welding(s: Setting) -> Any:
    welder = s.compiled.options.welder
    return welder.policy if welder.enabled else OFF


def _policy(now: Setting, pinned: Setting) -> Knob:
    current = now.compiled.options.rammer.policy
    values = tuple(dict.fromkeys([*POLICIES, *policy_call.by_system("rammer").values(), current]))
    return Knob(
        "policy",
        "policy",
        "choice",
        values,
        tuple(_name(v) for v in values),
        _position(values, current) or 0,
        _position(values, pinned.compiled.options.rammer.policy),
        "how Rammer places tasks; nothing is compiled again",
    )


def _control(now: Setting, pinned: Setting) -> tuple[Knob, ...]:
    if not any(b.calls for _, b in now.compiled.model.program.bindings()):
        return ()
    current = now.compiled.options.grinder.schedule
    values = tuple(dict.fromkeys([*SCHEDULES, current]))
    return (
        Knob(
            "control",
            "control flow",
            "segments" if len(values) <= 4 else "choice",
            values,
            tuple(_name(v) for v in values),
            _position(values, current) or 0,
            _position(values, pinned.compiled.options.grinder.schedule),
            "how Grinder runs loops and branches",
        ),
    )


def _name(policy: object) -> str:
    return policy_name(policy)


def _tile(now: Setting, pinned: Setting, op: str, label: str) -> Knob:
    binding, candidates = candidates_of(now.compiled, op)
    if target_of(now.compiled.device).uses_thread_blocks:
        return _thread_block(now, pinned, binding, label or op)
    legal = [c for c in candidates if not c.refused][:MOST_TILES]
    if not legal:
        return Knob("tile", "tile", "choice", (("", None),), ("none selected",), 0)
    values = tuple((binding, c.value) for c in legal)
    labels = tuple(map(tile_label, legal))
    chosen = now.compiled.program.decisions.tiling(binding)
    first = pinned.compiled.program.decisions.tiling(binding)
    return Knob(
        "tile",
        f"tile of {label or op}",
        "choice",
        values,
        labels,
        _position(values, (binding, chosen.chosen if chosen else None)) or 0,
        _position(values, (binding, first.chosen)) if first else None,
        "the best by Roller's model first",
    )


def _thread_block(now: Setting, pinned: Setting, binding: str, label: str) -> Knob:
    """Return the knob of a GPU kernel's thread block: the wall's choice, or a candidate."""
    weighed = now.compiled.weighed_blocks(binding, dict(now.sizes)) if binding else ()
    if not weighed:
        return Knob("tile", "tile", "choice", (("", None),), (BY_THE_WALL,), 0)
    by_hand, first = (dict(s.compiled.options.roller.pinned).get(binding) for s in (now, pinned))
    weighed = tuple(c for n, c in enumerate(weighed) if n < MOST_TILES or c.value == by_hand)
    values = ((binding, None), *((binding, c.value) for c in weighed))
    return Knob(
        "tile",
        f"thread block of {label}",
        "choice",
        values,
        (BY_THE_WALL, *(c.label for c in weighed)),
        _position(values, (binding, by_hand)) or 0,
        _position(values, (binding, first)),
        "the one that is done first where it is alone in front",
    )


def tile_label(c: Candidate[Tiling]) -> str:
    """Return a candidate's shortest distinct label: its sizes, register tile, or threads."""
    if c.value.is_thread_block:
        return f"{c.value.words.split(',')[0]}, {c.value.threads} threads"
    sizes = " ".join(f"{axis}={size}" for axis, size in c.value.tile) or "uncut"
    packed = " packed" if c.value.pack else ""
    return f"{sizes} {c.value.micro.rows}×{c.value.micro.columns}{packed}"


def candidates_of(c: Compiled, op: str) -> tuple[str, tuple[Candidate[Tiling], ...]]:
    """Return the kernel that computes a source operator, and the tiles that were weighed for it."""
    origins = {b.name: b.origin for b in c.program.kernel_calls}
    for decision in c.program.decisions.tilings:
        if op and op in origins.get(decision.binding, ()):
            return decision.binding, decision.candidates
    return "", ()


def knob_with_stop(knob: Knob, now: Setting, pinned: Setting, label: str) -> Knob:
    """Return a symbol's knob with a stop at the size `label` if that is legal; else the knob."""
    if not knob.name.startswith(SIZE) or not SIZE_LABEL.fullmatch(label):
        return knob
    return _size(now, pinned, knob.name.removeprefix(SIZE), int(label))


def _size(now: Setting, pinned: Setting, name: str, *sizes: int) -> Knob:
    bound = now.compiled.program.env.of(name)
    values = stops(bound, now.size(name), *sizes)
    high = f" to {bound.high}" if bound.high is not None else " or more"
    return Knob(
        f"{SIZE}{name}",
        f"{name}, {bound.low}{high}",
        "slider",
        values,
        tuple(map(str, values)),
        values.index(now.size(name)),
        _position(values, pinned.size(name)),
        "the same kernels run",
    )


def stops(bound: SymbolBound, *sizes: int) -> tuple[int, ...]:
    """Return legal values of a symbol worth a stop: bounds, powers of two, its hint and `sizes`."""
    high = bound.high if bound.high is not None else max(FURTHEST * bound.hint, 256)
    powers = {1 << p for p in range(high.bit_length())}
    candidates = {bound.low, high, bound.hint, *sizes} | {
        p for p in powers if bound.low <= p <= high
    }
    return tuple(
        sorted(v for v in candidates if v >= bound.low and (bound.high is None or v <= bound.high))
    )


def with_legal_tiles(roller: RollerOptions, compile: Callable[[RollerOptions], T]) -> T:
    """Compile without the pinned tiles and thread blocks for which compilation is refused."""
    while True:
        try:
            return compile(roller)
        except BadOption as problem:
            if (left := without_refused_tile(roller, problem)) == roller:
                raise
            roller = left


def without_refused_tile(roller: RollerOptions, problem: IronworksError) -> RollerOptions:
    """Return the options without the pinned tile that an error is about, if it is about one."""
    return replace(roller, pinned=tuple(p for p in roller.pinned if p[0] != problem.where))


def tiles_left(before: Options, after: Options) -> Iterator[tuple[str, str]]:
    """Yield the pins that are gone: "tile" or "thread block", and the kernel's name."""
    names = {name for name, _ in after.roller.pinned}
    for name, tiling in before.roller.pinned:
        if name not in names:
            yield "thread block" if tiling.is_thread_block else "tile", name
