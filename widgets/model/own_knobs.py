"""Knobs of passes of one's own: each on or off, and the options that say which values they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.passes.pipeline import own_passes
from explorer.passes.pipeline.own_pass import OwnPass
from explorer.passes.pipeline.registry import Passes
from widgets.model.knob import Knob

if TYPE_CHECKING:
    from widgets.model.compiled import Compiled

PREFIX = "pass "


def own_knobs(now: Compiled, pinned: Compiled) -> Iterator[Knob]:
    """A knob for each pass that this compilation or A has, and for each of its options with legal
    values. A knob's values are all the passes as they would be then.
    """
    mine, theirs = _of(now), _of(pinned)
    for after, run in {r.name: (a, r) for a, r in (*theirs, *mine)}.values():
        have = next(((a, r) for a, r in mine if r.name == run.name), None)
        others = tuple(entry for entry in mine if entry[1].name != run.name)
        on: Passes = mine if have else _in_order((*others, (after, run)), theirs)
        yield Knob(
            f"{PREFIX}{run.name}",
            run.name,
            "segments",
            (others, on),
            ("off", "on"),
            int(have is not None),
            int(run.name in [r.name for _, r in theirs]),
            run.promise or f"after {after}",
        )
        if have:
            yield from _options(have[1], mine, theirs)


def _of(c: Compiled) -> tuple[tuple[str, OwnPass], ...]:
    return tuple(own_passes.of(getattr(c.options, "passes", ())))


def _in_order(
    entries: tuple[tuple[str, OwnPass], ...], like: tuple[tuple[str, OwnPass], ...]
) -> Passes:
    """Those that are in A stand as they do there, the others behind them."""
    names = [r.name for _, r in like]
    return tuple(
        sorted(entries, key=lambda e: names.index(e[1].name) if e[1].name in names else len(names))
    )


def _options(
    run: OwnPass,
    mine: tuple[tuple[str, OwnPass], ...],
    theirs: tuple[tuple[str, OwnPass], ...],
) -> Iterator[Knob]:
    base = next((r for _, r in theirs if r.name == run.name), None)
    for name, values in own_passes.legal_values(run.run):

        def with_value(value: Any, name: str = name) -> Passes:
            made: Any = replace(run.run, **{name: value})  # type: ignore[type-var]
            return tuple((a, replace(r, run=made) if r.name == run.name else r) for a, r in mine)

        was = getattr(base.run, name, None) if base else None
        yield Knob(
            f"{PREFIX}{run.name}.{name}",
            f"{run.name} {name}",
            "segments" if len(values) <= 4 else "choice",
            tuple(map(with_value, values)),
            tuple(map(_label, values)),
            values.index(getattr(run.run, name)),
            values.index(was) if was in values else None,
            run.promise,
        )


def _label(value: object) -> str:
    return (
        {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
