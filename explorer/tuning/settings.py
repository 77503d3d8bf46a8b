"""Command-line settings such as `--set roller.top_k=10`: typed fields of the systems' options."""

from __future__ import annotations

from collections.abc import Callable as CallableType
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from explorer.compiler.options import Options
from explorer.devices import hardware
from explorer.errors import MEANT, BadOption, did_you_mean
from explorer.extend import passes
from explorer.passes.ranges import shown
from explorer.process.user_code import describe_error, with_article

__all__ = ["apply"]

TRUE, FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def apply(options: Options, texts: Iterable[str], flag: str = "--set") -> Options:
    """Return the options with each `group.field=value` set.

    A group may be a user-defined pass by its name. A field of `hardware` is any figure of the
    device, as in `hardware.L2 capacity=1 MiB`.

    Raises:
        BadOption: a name or value is unknown; the error names it and the `flag`.
    """
    for text in texts:
        path, equals, value = (part.strip() for part in text.partition("="))
        group, dot, field = path.partition(".")
        if not (equals and dot and group and field):
            raise BadOption(
                f"{flag} takes group.field=value, not {shown(text)}",
                where=flag,
                expected="roller.top_k=10",
                actual=shown(text),
            )
        group_options = _group(options, group, flag)
        if isinstance(group_options, hardware.Options) and field != "changed":
            options = replace(options, hardware=_set_figure(group_options, field, value, flag))
            continue
        was = _field_value(group_options, field, "option", f"{group}.", flag)
        parsed = _parse(path, value, _field_type(group_options, field), was, flag)
        changed = _replace_field(group_options, field, parsed, text, flag)
        options = _replace_group(options, group, changed)
    return options


def _group(options: Options, name: str, flag: str) -> Any:
    """Return a group of options, or a user-defined pass with options."""
    groups = {f.name: getattr(options, f.name) for f in fields(options)}
    groups_by_name: dict[str, Any] = {
        n: group for n, group in groups.items() if is_dataclass(group)
    }
    for _, run in passes.typed_passes(options.passes):
        groups_by_name[run.name] = run.run
    if name in groups_by_name:
        return groups_by_name[name]
    unknown = _unknown(name, groups_by_name, "group of options", "", flag)
    if MEANT not in unknown.sentence:
        unknown.try_ = f"--plugin FILE, if the file registers a pass {shown(name)}"
    raise unknown


def _set_figure(
    group_options: hardware.Options, name: str, text: str, flag: str
) -> hardware.Options:
    """Add one figure of the device; its name is checked at compile time."""
    try:
        return hardware.Options((*group_options.changed, (name, hardware.amount(text))))
    except ValueError:
        raise BadOption(
            f"{flag} hardware.{name} takes a number, not {shown(text)}",
            where=f"hardware.{name}",
            expected="a number",
            actual=shown(text),
            try_="160, 1.5 or 512 KiB",
        ) from None


def _replace_group(options: Options, group: str, changed: Any) -> Options:
    if group in {f.name for f in fields(options)}:
        return replace(options, **{group: changed})
    own = tuple(
        (after, replace(run, run=changed) if run.name == group else run)
        for after, run in passes.typed_passes(options.passes)
    )
    return replace(options, passes=own)


def _field_value(group_options: Any, name: str, what: str, prefix: str, flag: str) -> Any:
    names = [f.name for f in fields(group_options)] if is_dataclass(group_options) else []
    if name in names:
        return getattr(group_options, name)
    raise _unknown(name, names, what, prefix, flag)


def _unknown(name: str, candidates: Iterable[str], what: str, prefix: str, flag: str) -> BadOption:
    names = [prefix + each for each in candidates]
    choices = ", ".join(names) or "none"
    hint = did_you_mean(prefix + name, names) or f"; there are {choices}"
    return BadOption(
        f"there is no {what} {shown(prefix + name)}{hint}",
        where=flag,
        expected=choices,
        actual=shown(prefix + name),
    )


def _field_type(group_options: Any, field: str) -> Any:
    try:
        return get_type_hints(type(group_options))[field]
    except Exception:  # annotations of a user-defined pass may be anything
        return type(getattr(group_options, field))


def _replace_field(group_options: Any, name: str, value: object, text: str, flag: str) -> Any:
    try:
        return replace(group_options, **{name: value})
    except BadOption:
        raise
    except Exception as problem:  # its validation may raise anything
        raise BadOption(
            f"{flag} {shown(text)}: {describe_error(problem)}", where=flag, actual=shown(text)
        ) from None


def _parse(path: str, text: str, kind: Any, was: object, flag: str) -> object:
    """Parse a text as a value of the field's type; an unknown policy name is a plug-in."""
    if callable(was) or _takes_functions(kind):
        return _parse_policy(path, text, flag)
    try:
        return _parse_value(text, kind)
    except ValueError:
        words = _describe_type(kind)
        raise BadOption(
            f"{flag} {path} takes {words}, not {shown(text)}",
            where=path,
            expected=words,
            actual=shown(text),
        ) from None
    except TypeError:
        sentence = f"{flag} cannot write {path}: it holds no plain value"
        raise BadOption(sentence, where=path) from None


def _takes_functions(kind: Any) -> bool:
    return any(get_origin(part) is CallableType for part in get_args(kind))


def _parse_policy(path: str, text: str, flag: str) -> object:
    """Return a policy's name, or the function of a plug-in or Python file."""
    from explorer import extend

    if not extend.is_known(text):
        return text
    policy = extend.load(text)
    if callable(policy):
        return policy
    kind = with_article(type(policy).__name__)
    raise BadOption(
        f"{flag} {path} takes a policy, and the plug-in {text!r} is {kind}",
        where=path,
        expected="a function: ./mine.py:my_policy",
        actual=text,
    )


def _parse_value(text: str, kind: Any) -> object:
    """Parse a text.

    Raises ValueError for an invalid value, TypeError for a type without a text form.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = [part for part in parts if part is not NoneType]
        if len(inner) < len(parts) and text.lower() == "none":
            return None
        return _parse_value(text, inner[0])
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(
            _parse_value(part.strip(), parts[0]) for part in text.split(",") if part.strip()
        )
    if origin is tuple and set(parts) <= {bool, float, int, str}:
        words = text.rsplit(":", len(parts) - 1)
        return tuple(
            _parse_value(word.strip(), part) for word, part in zip(words, parts, strict=True)
        )
    if kind is bool:
        return _parse_bool(text)
    if kind is float:
        return _parse_float(text)
    if kind in (int, str):
        return kind(text)
    raise TypeError(kind)


def _parse_bool(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError(text)
    return text.lower() in TRUE


def _parse_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def _describe_type(kind: Any) -> str:
    named = {bool: "true or false", int: "a whole number", float: "a finite number"}
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return " and ".join(map(_describe_type, get_args(kind))) + " with a colon between"
    if get_origin(kind) is tuple:
        return f"{_describe_type(get_args(kind)[0])}, or several with commas between"
    if get_origin(kind) in (Union, UnionType):
        return f"{_describe_type(get_args(kind)[0])}, or none"
    return named.get(kind, "a word")
