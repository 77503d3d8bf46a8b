"""Controls for every option of every system and every figure of the device.

Each has its name in `--set`, its legal values, A's value and the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from explorer.compiler.options import Options
from explorer.devices import hardware
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.passes.policy_call import policy_name
from explorer.passes.ranges import Legal, OneOf, PolicyOf, Rows, Switch, descriptions, legal
from explorer.tuning.settings import apply
from widgets.model.compiled import Compiled
from widgets.model.knob import Knob
from widgets.model.pipeline_knobs import HIDDEN

SET = "set "
HARDWARE = "hardware"
ON = ("off", "on")
PLAIN = Options()
# Options that have a knob in the row, where a saved state stores them.
KNOBS = ("rammer.threads", "rammer.policy", "welder.enabled", "welder.policy", "grinder.schedule")


@dataclass(frozen=True, slots=True)
class Control:
    """One control: `kind` is "number", "switch" or "choice".

    `now`, `a` and `default` are its values as texts, `legal` describes the legal values, `says` the
    meaning, and `source` names the source of its number.
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
    """Return a control for every option that is a number, a switch or one of some words.

    Manual changes in pictures have no control here. Empty for a compilation that is not Ironworks'
    own.
    """
    mine, theirs = _options(now), _options(a)
    if mine is None or theirs is None:
        return ()
    return tuple(_of_group(mine, theirs))


def figures(now: Compiled, a: Compiled) -> tuple[Control, ...]:
    """Return a control for every figure of the device that can be changed."""
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
    """Return the values that differ from their defaults, by name, without the knobs of the row."""
    every = (*options(now, now), *figures(now, now))
    changed_figures = {f"{HARDWARE}.{name}" for name, _ in _hardware(now)}
    return {
        c.name: c.now
        for c in every
        if (c.name in changed_figures or not c.name.startswith(f"{HARDWARE}."))
        and c.now != c.default
        and c.name not in KNOBS
    }


def knob(now: Compiled, name: str, text: str) -> Knob:
    """Return a control turned to another text, as a knob of two values.

    Raises BadOption if the control does not exist or cannot have that value.
    """
    control = find_control(now, name)
    _check(control, text)
    values = (control.now, text)
    return Knob(f"{SET}{name}", name.removeprefix(f"{HARDWARE}."), HIDDEN, values, values, 0)


def find_control(now: Compiled, name: str) -> Control:
    """Return the control of a name; raises BadOption."""
    for control in (*options(now, now), *figures(now, now)):
        if control.name == name:
            return control
    raise BadOption(f"there is no setting {name[:40]!r}", where=name[:40])


def apply_controls(now: Compiled, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the groups of options that change when controls have these texts."""
    changed: Options = now.options
    for name, text in texts.items():
        if name.startswith(f"{HARDWARE}."):
            changed = replace(changed, hardware=_with_figure(now, changed, name, text))
        else:
            word = {"off": "false", "on": "true"}.get(text, text)
            changed = apply(changed, [f"{name}={word}"], "the setting")
    groups = {name.partition(".")[0] for name in texts}
    return {group: getattr(changed, group) for group in groups}


def _with_figure(now: Compiled, base: Options, name: str, text: str) -> hardware.Options:
    """Add one changed figure, or drop it if it has its original value."""
    changed = apply(base, [f"{name}={text}"], "the setting").hardware.changed
    short, device = name.removeprefix(f"{HARDWARE}."), now.device
    was = {f.name: f.value for f in hardware.figures(device.base or device)}
    figures = tuple((n, v) for n, v in changed if n != short or v != was.get(short))
    return hardware.Options(figures)


def _options(c: Compiled) -> Options | None:
    candidate = getattr(c, "options", None)
    return candidate if isinstance(candidate, Options) else None


def _hardware(c: Compiled) -> Iterable[tuple[str, float]]:
    all_options = _options(c)
    return all_options.hardware.changed if all_options else ()


def _of_group(mine: Options, theirs: Options) -> Iterator[Control]:
    for field in fields(mine):
        group: Any = getattr(mine, field.name)
        if not is_dataclass(group):
            continue
        other, plain, words = (
            getattr(theirs, field.name),
            getattr(PLAIN, field.name),
            descriptions(group),
        )
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
    return {Switch: ON, OneOf: getattr(allowed, "choices", ())}.get(type(allowed), ())


def text(value: object) -> str:
    """Return a value as its control shows it."""
    if isinstance(value, bool):
        return ON[value]
    return policy_name(value) if callable(value) else str(value)


def amount_text(figure: hardware.Figure) -> str:
    """Return a figure as it is typed: whole KiB or MiB if it counts bytes, else its digits."""
    value = figure.value
    if figure.number.unit == "bytes" and value >= 1024 and value % 1024 == 0:
        unit, size = ("MiB", 1 << 20) if value % (1 << 20) == 0 else ("KiB", 1 << 10)
        return f"{value / size:.0f} {unit}"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def _check(control: Control, value: str) -> None:
    """Check a text from outside: a number, or one of the choices; not a file or plug-in name."""
    if control.kind != "number" and value not in control.choices:
        legal_values = ", ".join(control.choices)
        raise BadOption(
            f"{control.name} is one of {legal_values}, found {value[:40]!r}",
            where=control.name,
            expected=legal_values,
            actual=value[:40],
        )
    try:
        if control.kind == "number":
            hardware.amount(value)
    except ValueError:
        raise BadOption(
            f"{control.name} is {control.legal}, found {value[:40]!r}",
            where=control.name,
            expected=control.legal,
            actual=value[:40],
        ) from None
