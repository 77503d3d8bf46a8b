"""Key of a compilation's entry: everything that the compilation depends on, part by part.

`why_not` names the parts that differ where a compilation is not on disk.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache as once
from importlib.metadata import version
from typing import Any

from explorer import cache
from explorer.cache import Difference
from explorer.devices.model import Device, text_of_device
from explorer.frontends.model import Model
from explorer.ir.decisions.decided import Decisions
from explorer.ir.dims import is_symbolic
from explorer.ir.program import Program
from explorer.passes.code_origin import field_names
from explorer.passes.fingerprint import packages_key, pass_content, pass_key
from explorer.passes.snapshots import Step, steps_content
from explorer.process.budget import budget

FORMAT = "whole-program-1"
TOOLS = ("numpy", "numba", "llvmlite", "onnx", "ml_dtypes", "sympy")
PLAIN = (bool, int, float, str, type(None))
SHORT = 80  # characters of a value that is told as it is
FOLLOWS = frozenset({"steps", "device", "packages"})  # from other parts, which say it better


@dataclass(frozen=True, slots=True)
class ProgramKey:
    """The parts by name, such as "model" or "rammer.threads", as short texts or digests."""

    model: str
    parts: Mapping[str, str]

    @property
    def key(self) -> str:
        """The key of the entry: 256 bits of all parts."""
        return cache.content_key(
            FORMAT, *(word for part in sorted(self.parts.items()) for word in part)
        )

    @property
    def stays(self) -> bool:
        """True if only this package's own code runs, which cannot change the key's parts."""
        return not self.parts["packages"]


def program_key(
    model: Model,
    device: Device,
    options: Any,
    donated: Sequence[str],
    steps: Sequence[Step],
    setting: str | None,
) -> ProgramKey | None:
    """Return the key of the last program of these steps, or None if it cannot be stored.

    It cannot be stored if a step, an option or the model has no fingerprint, or if measured times
    decide. `setting` stands for everything that the steps depend on besides their options, as in
    `run_steps`.
    """
    content, options_by_name = steps_content(steps), _options(options)
    if (
        content is None
        or setting is None
        or options_by_name is None
        or not _is_plain(model.program)
    ):
        return None
    if options.roller.measure or options.grinder.measure:
        return None
    content_of_options = pass_content(options)
    is_own_code = (
        setting == text_of_device(device)
        and content.is_ours
        and content_of_options is not None
        and content_of_options.is_ours
    )
    parts = {
        "model": f"{model.content} {model.name}",
        "target": device.name,
        "device": cache.content_key(text_of_device(device)),
        "donate": ", ".join(donated),
        "compiler": compiler_key(),
        "memory": str(budget()),
        "steps": cache.content_key(content.key, setting),
        "packages": "" if is_own_code else packages_key(),
        **_tools(),
        **options_by_name,
    }
    return ProgramKey(model.name, parts)


def compiler_key() -> str:
    """Return the digest of the compiler's own code."""
    return cache.code_key(".")


@once
def _tools() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": sys.version, **{name: version(name) for name in TOOLS}}


def _options(options: Any) -> dict[str, str] | None:
    """Return each option by its group and name, or None if one has no fingerprint."""
    options_by_name: dict[str, str] = {}
    for group in fields(options):
        options_of_group = getattr(options, group.name)
        names = field_names(type(options_of_group))  # type: ignore[arg-type]
        values = {f"{group.name}.{n}": getattr(options_of_group, n) for n in names} or {
            group.name: options_of_group
        }
        for name, value in values.items():
            text = _text(value)
            if text is None:
                return None
            options_by_name[name] = text
    return options_by_name


def _is_plain(program: Program) -> bool:
    """Return True if a program's content describes it in every process: it holds no function."""
    attrs = (v for _, b in program.bindings() for _, v in getattr(b.expr, "attrs", ()))
    return program.decisions == Decisions() and all(map(_is_data, attrs))


def _is_data(value: Any) -> bool:
    """Return True if an attribute is plain data."""
    if isinstance(value, tuple):
        return all(map(_is_data, value))
    return isinstance(value, PLAIN) or is_symbolic(value)


def _text(value: Any) -> str | None:
    """Return a value as short text or as a fingerprint, or None."""
    plain = isinstance(value, PLAIN) or (
        isinstance(value, tuple) and all(isinstance(item, PLAIN) for item in value)
    )
    return repr(value) if plain and len(repr(value)) <= SHORT else pass_key(value)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Answer to the question whether a compilation is on disk.

    `is_cached`: it is. Otherwise `differs` lists the parts that differ from the nearest entry of a
    model of this name. `is_unstorable`: such a compilation is never stored.
    """

    model: str
    is_cached: bool
    differs: tuple[Difference, ...] = ()
    is_unstorable: bool = False


def why_not(model: str, key: ProgramKey | None) -> WhyNot:
    """Return the reason for a key, which is None if the compilation cannot be stored."""
    if key is None:
        return WhyNot(model, is_cached=False, is_unstorable=True)
    cache.finish()
    if cache.has(key.key):
        return WhyNot(model, is_cached=True)

    def is_there(parts: Mapping[str, str]) -> bool:
        return cache.has(ProgramKey(model, parts).key)

    differing = cache.differences(model, key.parts, is_there) or ()
    primary = tuple(d for d in differing if d.part not in FOLLOWS)
    return WhyNot(model, is_cached=False, differs=primary or differing)
