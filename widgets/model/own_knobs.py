"""Knobs of the user's passes: each on or off, and the options that declare legal values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.passes.pipeline import user_passes
from explorer.passes.pipeline.registry import Passes
from explorer.passes.pipeline.user_pass import UserPass
from widgets.model.knob import Knob

if TYPE_CHECKING:
    from widgets.model.compiled import Compiled

PREFIX = "pass "


def own_knobs(now: Compiled, pinned: Compiled) -> Iterator[Knob]:
    """Yield a knob for each user pass of this compilation or A, and one for each of its options.

    Only options with legal values have a knob. A knob's values are the complete lists of passes.
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


def _of(c: Compiled) -> tuple[tuple[str, UserPass], ...]:
    return tuple(user_passes.typed_passes(getattr(c.options, "passes", ())))


def _in_order(
    entries: tuple[tuple[str, UserPass], ...], like: tuple[tuple[str, UserPass], ...]
) -> Passes:
    """Sort passes as in A, with the others behind them."""
    names = [r.name for _, r in like]
    return tuple(
        sorted(entries, key=lambda e: names.index(e[1].name) if e[1].name in names else len(names))
    )


def _options(
    run: UserPass,
    mine: tuple[tuple[str, UserPass], ...],
    theirs: tuple[tuple[str, UserPass], ...],
) -> Iterator[Knob]:
    base = next((r for _, r in theirs if r.name == run.name), None)
    for name, values in user_passes.legal_values(run.run):

        def with_value(value: Any, name: str = name) -> Passes:
            changed_pass: Any = replace(run.run, **{name: value})  # type: ignore[type-var]
            return tuple(
                (a, replace(r, run=changed_pass) if r.name == run.name else r) for a, r in mine
            )

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
