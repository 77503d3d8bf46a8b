"""Points of a sweep's grid: each a target, settings as texts, and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from explorer.cache import content_key
from explorer.compiler import device_of
from explorer.devices.catalogue import HERE
from explorer.devices.model import text_of_device
from explorer.errors import BadOption, BoundError
from explorer.frontends.model import Model
from explorer.options import Options
from explorer.stored.program_key import compiler_key
from explorer.tuning.settings import apply
from explorer.tuning.sweep.rows import BIND

TARGET = "target"
MOST_POINTS = 100_000  # of one sweep; chosen
FORMAT = "sweep-1"


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One combination: `varied` are the names and texts that its row shows."""

    target: str
    settings: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    varied: tuple[tuple[str, str], ...]

    def key(self, model: str) -> str:
        """Return 256 bits of digest over the model, the compiler's code and all settings."""
        sheet = "" if self.target in HERE else text_of_device(device_of(self.target))
        sizes = (f"{name}={size}" for name, size in sorted(self.sizes))
        parts = (self.target, sheet, *sorted(self.settings), "", *sizes)
        return content_key(FORMAT, model, compiler_key(), *parts)


def points(
    model: Model, vary: Mapping[str, Sequence[Any]], target: str, sizes: Mapping[str, int]
) -> tuple[SweepPoint, ...]:
    """Return every combination.

    Axes that change least of a compilation vary fastest: sizes, then the options of late systems.
    `sizes` are those of symbols that do not vary.

    Raises:
        BadOption: a name is no option, symbol or "target", or does not take a value.
    """
    axes = [_axis(model, name, values) for name, values in vary.items()]
    axes.sort(key=lambda axis: axis.order)
    if not axes:
        raise BadOption(
            "a sweep needs something to vary", where="vary", try_='{"roller.top_k": [1, 10]}'
        )
    count = 1
    for axis in axes:
        count *= len(axis.texts)
    if count > MOST_POINTS:
        raise BadOption(
            f"{count:,} combinations are more than a sweep takes",
            where="vary",
            expected=f"at most {MOST_POINTS:,}",
        )
    return tuple(_point(axes, texts, target, sizes) for texts in product(*(a.texts for a in axes)))


def axes_of(grid: Sequence[SweepPoint]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the varied names, slowest first, each with its values."""
    axes: dict[str, dict[str, None]] = {}
    for point in grid:
        for name, text in point.varied:
            axes.setdefault(name, {})[text] = None
    return tuple((name, tuple(texts)) for name, texts in axes.items())


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    texts: tuple[str, ...]
    order: tuple[int, str]


def _axis(model: Model, name: str, values: Sequence[Any]) -> _Axis:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise BadOption(f"{name} is varied over a list of values", where=name, actual=repr(values))
    texts = tuple(dict.fromkeys(map(_setting_text, values)))
    symbols = model.program.env.hints
    bare = name.removeprefix(BIND)
    if bare in symbols:
        _check_bounds(model, bare, texts)
        return _Axis(f"{BIND}{bare}", texts, (len(fields(Options)), bare))
    if name == TARGET:
        for text in texts:
            device_of(text)
        return _Axis(name, texts, (-1, ""))
    if "." not in name or bare != name:
        raise BadOption(
            f"there is nothing to vary named {name!r}",
            where=name,
            expected=", ".join((TARGET, "group.option", *(f"{BIND}{s}" for s in symbols))),
        )
    for text in texts:
        apply(Options().entered, [f"{name}={text}"], "--vary")
    groups = [f.name for f in fields(Options)]
    group = name.partition(".")[0]
    return _Axis(name, texts, (groups.index(group) if group in groups else 0, name))


def _setting_text(value: Any) -> str:
    """Return a value in the form of `--set`."""
    if isinstance(value, tuple | list):
        return ",".join(map(_setting_text, value))
    return str(value)


def _check_bounds(model: Model, name: str, texts: Sequence[str]) -> None:
    limits = model.program.env.of(name)
    for text in texts:
        most = int(text) if limits.high is None and text.isdecimal() else limits.high
        if not text.isdecimal() or not limits.low <= int(text) <= (most or 0):
            allowed = f"{limits.low} {'or more' if limits.high is None else f'to {limits.high}'}"
            raise BoundError(
                f"{name} is {allowed}, and cannot be {text!r}",
                where=f"{BIND}{name}",
                expected=allowed,
                actual=text,
            )


def _point(
    axes: Sequence[_Axis], texts: Sequence[str], target: str, sizes: Mapping[str, int]
) -> SweepPoint:
    varied = tuple((axis.name, text) for axis, text in zip(axes, texts, strict=True))
    bound = {n.removeprefix(BIND): int(text) for n, text in varied if n.startswith(BIND)}
    chosen = dict(varied).get(TARGET, target)
    settings = (f"{n}={t}" for n, t in varied if n != TARGET and not n.startswith(BIND))
    return SweepPoint(chosen, tuple(settings), tuple({**sizes, **bound}.items()), varied)
