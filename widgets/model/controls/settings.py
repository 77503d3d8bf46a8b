"""What else may be changed: every option of every system, and every figure of the device, each by
its name in `--set`, with what it may be, what A has and what it is where nobody says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from explorer.devices import hardware
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.options import Options
from explorer.passes.pipeline.own_policy import policy_name
from explorer.passes.pipeline.ranges import Legal, OneOf, PolicyOf, Rows, Switch, legal, says
from explorer.tuning.settings import apply
from widgets.model.compiled import Compiled
from widgets.model.knob import Knob
from widgets.model.step_knobs import HIDDEN

SET = "set "
HARDWARE = "hardware"
ON = ("off", "on")
PLAIN = Options()
# What a knob of the row turns as well: a saved state has it there.
KNOBS = ("rammer.threads", "rammer.policy", "welder.enabled", "welder.policy", "grinder.schedule")


@dataclass(frozen=True, slots=True)
class Control:
    """`kind` is "number", "switch" or "choice"; `now`, `a` and `default` are its values as texts,
    `legal` says what it may be, `says` what it is, `source` where its number is from.
    """

    name: str
    group: str
    title: str
    kind: str
    now: str
    a: str
    default: str
    legal: str
    says: str
    choices: tuple[str, ...] = ()
    source: str = ""


def options(now: Compiled, a: Compiled) -> tuple[Control, ...]:
    """Every option that is a number, a switch or one of some words; what is done by hand in a
    picture has no control here. None of a compilation that is none of ours.
    """
    mine, theirs = _options(now), _options(a)
    if mine is None or theirs is None:
        return ()
    return tuple(_of_group(mine, theirs))


def figures(now: Compiled, a: Compiled) -> tuple[Control, ...]:
    """Every figure of the device that may be changed."""
    device = getattr(now, "device", None)
    if _options(now) is None or not isinstance(device, Device):
        return ()
    was = {f.name: f for f in hardware.figures(device.base or device)}
    of_a = {f.name: f for f in hardware.figures(a.device)}
    return tuple(
        Control(
            f"{HARDWARE}.{f.name}",
            f.group,
            f.name.removeprefix("cost "),
            "number",
            amount_text(f),
            amount_text(of_a[f.name]) if f.name in of_a else "",
            amount_text(was[f.name]),
            f.legal,
            f.says,
            source=f.source,
        )
        for f in hardware.figures(device)
        if f.name in was
    )


def changes(now: Compiled) -> dict[str, str]:
    """What is other than where nobody says, by name, as a saved state has it: knobs of the row
    left out.
    """
    every = (*options(now, now), *figures(now, now))
    given = {f"{HARDWARE}.{name}" for name, _ in _hardware(now)}
    return {
        c.name: c.now
        for c in every
        if (c.name in given or not c.name.startswith(f"{HARDWARE}."))
        and c.now != c.default
        and c.name not in KNOBS
    }


def knob(now: Compiled, name: str, text: str) -> Knob:
    """A control turned to another text, as a knob of two values; BadOption where there is no such
    control, and where it may not have that value.
    """
    control = named(now, name)
    _check(control, text)
    values = (control.now, text)
    return Knob(f"{SET}{name}", name.removeprefix(f"{HARDWARE}."), HIDDEN, values, values, 0)


def named(now: Compiled, name: str) -> Control:
    """The control of a name; raises BadOption."""
    for control in (*options(now, now), *figures(now, now)):
        if control.name == name:
            return control
    raise BadOption(f"there is no setting {name[:40]!r}", where=name[:40])


def applied(now: Compiled, texts: Mapping[str, str]) -> dict[str, Any]:
    """The groups of options that become others when controls have these texts."""
    found: Options = now.options
    for name, text in texts.items():
        if name.startswith(f"{HARDWARE}."):
            found = replace(found, hardware=_with_figure(now, found, name, text))
        else:
            word = {"off": "false", "on": "true"}.get(text, text)
            found = apply(found, [f"{name}={word}"], "the setting")
    groups = {name.partition(".")[0] for name in texts}
    return {group: getattr(found, group) for group in groups}


def _with_figure(now: Compiled, found: Options, name: str, text: str) -> hardware.Options:
    """One figure more, or one less where it is what it was."""
    changed = apply(found, [f"{name}={text}"], "the setting").hardware.changed
    short, device = name.removeprefix(f"{HARDWARE}."), now.device
    was = {f.name: f.value for f in hardware.figures(device.base or device)}
    kept = tuple((n, v) for n, v in changed if n != short or v != was.get(short))
    return hardware.Options(kept)


def _options(c: Compiled) -> Options | None:
    found = getattr(c, "options", None)
    return found if isinstance(found, Options) else None


def _hardware(c: Compiled) -> Iterable[tuple[str, float]]:
    found = _options(c)
    return found.hardware.changed if found else ()


def _of_group(mine: Options, theirs: Options) -> Iterator[Control]:
    for field in fields(mine):
        group: Any = getattr(mine, field.name)
        if not is_dataclass(group):
            continue
        other, plain, words = getattr(theirs, field.name), getattr(PLAIN, field.name), says(group)
        for name, allowed in legal(group).items():
            if isinstance(allowed, Rows):
                continue
            now, was, default = (getattr(x, name) for x in (group, other, plain))
            yield Control(
                f"{field.name}.{name}",
                field.name,
                name,
                _kind(allowed),
                text(now),
                text(was),
                text(default),
                allowed.words,
                words[name],
                _choices(allowed, now),
            )


def _kind(allowed: Legal) -> str:
    return {Switch: "switch", OneOf: "choice", PolicyOf: "choice"}.get(type(allowed), "number")


def _choices(allowed: Legal, now: object) -> tuple[str, ...]:
    if isinstance(allowed, PolicyOf):
        return tuple(dict.fromkeys((*allowed.names, text(now))))
    return {Switch: ON, OneOf: getattr(allowed, "known", ())}.get(type(allowed), ())


def text(value: object) -> str:
    """A value as its control has it."""
    if isinstance(value, bool):
        return ON[value]
    return policy_name(value) if callable(value) else str(value)


def amount_text(figure: hardware.Figure) -> str:
    """A figure as it is typed: whole KiB or MiB where it counts bytes, else its digits."""
    value = figure.value
    if figure.number.unit == "bytes" and value >= 1024 and value % 1024 == 0:
        unit, size = ("MiB", 1 << 20) if value % (1 << 20) == 0 else ("KiB", 1 << 10)
        return f"{value / size:.0f} {unit}"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def _check(control: Control, given: str) -> None:
    """A text from outside: a number, or one of what may be chosen; no name of a file or plug-in."""
    if control.kind != "number" and given not in control.choices:
        known = ", ".join(control.choices)
        raise BadOption(
            f"{control.name} is one of {known}, found {given[:40]!r}",
            where=control.name,
            expected=known,
            found=given[:40],
        )
    try:
        if control.kind == "number":
            hardware.amount(given)
    except ValueError:
        raise BadOption(
            f"{control.name} is {control.legal}, found {given[:40]!r}",
            where=control.name,
            expected=control.legal,
            found=given[:40],
        ) from None
