"""`--set roller.top_k=10`: one field of one system's options, with the type that the field has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from inspect import isfunction, signature
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from explorer.errors import BadOption

__all__ = ["apply"]

Options = TypeVar("Options")
TRUE, FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def apply(options: Options, texts: Iterable[str]) -> Options:
    """The options with each `group.field=value` set; `BadOption` names what is unknown."""
    for text in texts:
        path, equals, value = (part.strip() for part in text.partition("="))
        group, dot, field = path.partition(".")
        if not (equals and dot and group and field):
            raise BadOption(
                f"--set takes group.field=value, not {text!r}",
                where="--set",
                expected="roller.top_k=10",
                found=text,
            )
        whole = _part(options, group, "group of options", "")
        was = _part(whole, field, "option", f"{group}.")
        kind = get_type_hints(type(whole))[field]
        changed = _with(whole, field, _read(path, value, kind, was), text)
        options = _with(options, group, changed, text)
    return options


def _part(whole: Any, name: str, what: str, prefix: str) -> Any:
    known = [f.name for f in fields(whole)] if is_dataclass(whole) else []
    if name in known:
        return getattr(whole, name)
    near = get_close_matches(name, known, n=1)
    there = ", ".join(prefix + each for each in known) or "none"
    hint = f"did you mean {prefix + near[0]!r}?" if near else f"there are {there}"
    raise BadOption(
        f"there is no {what} {prefix + name!r}; {hint}",
        where="--set",
        expected=there,
        found=prefix + name,
    )


def _with(whole: Any, name: str, value: object, text: str) -> Any:
    try:
        return replace(whole, **{name: value})
    except (TypeError, ValueError) as problem:
        raise BadOption(f"--set {text}: {problem}", where="--set", found=text) from None


def _read(path: str, text: str, kind: Any, was: object) -> object:
    """The text as a value of the field's type."""
    if callable(was):
        return _policy(path, text, was)
    try:
        return _value(text, kind)
    except ValueError:
        words = _words(kind)
        raise BadOption(
            f"--set {path} takes {words}, not {text!r}", where=path, expected=words, found=text
        ) from None
    except TypeError:
        raise BadOption(f"--set cannot write {path}: it holds no plain value", where=path) from None


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


def _policy(path: str, text: str, was: Callable[..., Any]) -> object:
    """The policy of that name: a function beside the present one, taking the same, or a plug-in."""
    from explorer import plugins

    module = sys.modules[was.__module__]
    taken = list(signature(was).parameters)
    known = {
        name: each
        for name, each in vars(module).items()
        if isfunction(each)
        and not name.startswith("_")
        and list(signature(each).parameters) == taken
    }
    if text in known:
        return known[text]
    if text in plugins.names():
        return plugins.load(text)
    there = ", ".join(sorted({*known, *plugins.names()}))
    raise BadOption(
        f"--set {path}: there is no policy {text!r}; there are {there}",
        where=path,
        expected=there,
        found=text,
    )
