"""`--set roller.top_k=10`: one field of one system's options, with the type that the field has."""

from __future__ import annotations

from collections.abc import Callable as CallableType
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from explorer.devices import hardware
from explorer.errors import BadOption, did_you_mean
from explorer.options import Options
from explorer.passes.pipeline import own_passes
from explorer.passes.pipeline.own_pass import article, said
from explorer.passes.pipeline.ranges import shown

__all__ = ["apply"]

TRUE, FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def apply(options: Options, texts: Iterable[str], flag: str = "--set") -> Options:
    """The options with each `group.field=value` set; a group may be a pass of one's own, by its
    name, and a field of `hardware` is any figure of the device, as in `hardware.L2 capacity=1 MiB`.
    `BadOption` names what is unknown, and the `flag` that it came by.
    """
    for text in texts:
        path, equals, value = (part.strip() for part in text.partition("="))
        group, dot, field = path.partition(".")
        if not (equals and dot and group and field):
            raise BadOption(
                f"{flag} takes group.field=value, not {shown(text)}",
                where=flag,
                expected="roller.top_k=10",
                found=shown(text),
            )
        whole = _group(options, group, flag)
        if isinstance(whole, hardware.Options) and field != "changed":
            options = replace(options, hardware=_figure(whole, field, value, flag))
            continue
        was = _part(whole, field, "option", f"{group}.", flag)
        found = _read(path, value, _kind(whole, field), was, flag)
        changed = _with(whole, field, found, text, flag)
        options = _replaced(options, group, changed)
    return options


def _group(options: Options, name: str, flag: str) -> Any:
    """A group of options, or a pass of one's own that has some."""
    groups = {f.name: getattr(options, f.name) for f in fields(options)}
    known: dict[str, Any] = {n: group for n, group in groups.items() if is_dataclass(group)}
    for _, run in own_passes.of(options.passes):
        known[run.name] = run.run
    if name in known:
        return known[name]
    raise _unknown(name, known, "group of options", "", flag)


def _figure(whole: hardware.Options, name: str, text: str, flag: str) -> hardware.Options:
    """One figure of the device more; which it has is known where it is compiled for."""
    try:
        return hardware.Options((*whole.changed, (name, hardware.amount(text))))
    except ValueError:
        raise BadOption(
            f"{flag} hardware.{name} takes a number, not {shown(text)}",
            where=f"hardware.{name}",
            expected="a number",
            found=shown(text),
            try_="160, 1.5 or 512 KiB",
        ) from None


def _replaced(options: Options, group: str, changed: Any) -> Options:
    if group in {f.name for f in fields(options)}:
        return replace(options, **{group: changed})
    own = tuple(
        (after, replace(run, run=changed) if run.name == group else run)
        for after, run in own_passes.of(options.passes)
    )
    return replace(options, passes=own)


def _part(whole: Any, name: str, what: str, prefix: str, flag: str) -> Any:
    known = [f.name for f in fields(whole)] if is_dataclass(whole) else []
    if name in known:
        return getattr(whole, name)
    raise _unknown(name, known, what, prefix, flag)


def _unknown(name: str, known: Iterable[str], what: str, prefix: str, flag: str) -> BadOption:
    names = [prefix + each for each in known]
    there = ", ".join(names) or "none"
    hint = did_you_mean(prefix + name, names) or f"; there are {there}"
    return BadOption(
        f"there is no {what} {shown(prefix + name)}{hint}",
        where=flag,
        expected=there,
        found=shown(prefix + name),
    )


def _kind(whole: Any, field: str) -> Any:
    try:
        return get_type_hints(type(whole))[field]
    except Exception:  # the annotations of a pass of one's own may be anything
        return type(getattr(whole, field))


def _with(whole: Any, name: str, value: object, text: str, flag: str) -> Any:
    try:
        return replace(whole, **{name: value})
    except BadOption:
        raise
    except Exception as problem:  # so may what it checks them by
        raise BadOption(
            f"{flag} {shown(text)}: {said(problem)}", where=flag, found=shown(text)
        ) from None


def _read(path: str, text: str, kind: Any, was: object, flag: str) -> object:
    """The text as a value of the field's type; a policy that goes by no name here is a plug-in."""
    if callable(was) or _takes_functions(kind):
        return _policy(path, text, flag)
    try:
        return _value(text, kind)
    except ValueError:
        words = _words(kind)
        raise BadOption(
            f"{flag} {path} takes {words}, not {shown(text)}",
            where=path,
            expected=words,
            found=shown(text),
        ) from None
    except TypeError:
        said = f"{flag} cannot write {path}: it holds no plain value"
        raise BadOption(said, where=path) from None


def _takes_functions(kind: Any) -> bool:
    return any(get_origin(part) is CallableType for part in get_args(kind))


def _policy(path: str, text: str, flag: str) -> object:
    """A policy's name as it stands, or the function that a plug-in or a file of Python has."""
    from explorer import plugins

    if not plugins.is_known(text):
        return text
    found = plugins.load(text)
    if callable(found):
        return found
    kind = article(type(found).__name__)
    raise BadOption(
        f"{flag} {path} takes a policy, and the plug-in {text!r} is {kind}",
        where=path,
        expected="a function: ./mine.py:my_policy",
        found=text,
    )


def _value(text: str, kind: Any) -> object:
    """ValueError where the text is no such value, TypeError where the type has no text form."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = [part for part in parts if part is not NoneType]
        if len(inner) < len(parts) and text.lower() == "none":
            return None
        return _value(text, inner[0])
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_value(part.strip(), parts[0]) for part in text.split(",") if part.strip())
    if origin is tuple and set(parts) <= {bool, float, int, str}:
        words = text.rsplit(":", len(parts) - 1)
        return tuple(_value(word.strip(), part) for word, part in zip(words, parts, strict=True))
    if kind is bool:
        return _truth(text)
    if kind is float:
        return _finite(text)
    if kind in (int, str):
        return kind(text)
    raise TypeError(kind)


def _truth(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError(text)
    return text.lower() in TRUE


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def _words(kind: Any) -> str:
    named = {bool: "true or false", int: "a whole number", float: "a finite number"}
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return " and ".join(map(_words, get_args(kind))) + " with a colon between"
    if get_origin(kind) is tuple:
        return f"{_words(get_args(kind)[0])}, or several with commas between"
    if get_origin(kind) in (Union, UnionType):
        return f"{_words(get_args(kind)[0])}, or none"
    return named.get(kind, "a word")
