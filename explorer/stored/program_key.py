"""What a compilation depends on, part by part, and the key of its entry, which all of them make."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache as once
from functools import lru_cache
from importlib.metadata import distributions, version
from types import FunctionType
from typing import Any

import numpy as np

from explorer import cache
from explorer.budget import budget
from explorer.devices.model import Device, text_of_device
from explorer.frontends.model import Model
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ir.shapes.algebra import is_symbolic
from explorer.passes.pipeline.fingerprint import pass_key
from explorer.passes.pipeline.own_pass import OwnPass
from explorer.passes.pipeline.pipeline import Step, steps_key
from explorer.passes.pipeline.where_from import field_names, kind_of, module_of

FORMAT = "whole-program-1"
TOOLS = ("numpy", "numba", "llvmlite", "onnx", "ml_dtypes", "sympy")
PLAIN = (bool, int, float, str, type(None))
SHORT = 80  # characters of a value that is told as it is


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
        """Whether nothing but this package's own code runs, which changes nothing of it."""
        return not self.parts["packages"]


def program_key(
    given: Model,
    device: Device,
    options: Any,
    donated: Sequence[str],
    steps: Sequence[Step],
    setting: str | None,
) -> ProgramKey | None:
    """What the last program of these steps depends on. `setting` stands for all that they depend on
    besides their options, as `run_steps` takes it.

    None where nobody can tell what a step, an option or the model itself does, and where a clock
    decides.
    """
    key, told = steps_key(steps), _options(options)
    if key is None or setting is None or told is None or not _is_plain(given.program):
        return None
    if options.roller.measure or options.grinder.measure:
        return None
    ours = setting == text_of_device(device) and _is_ours((steps, options), set())
    parts = {
        "model": f"{given.content} {given.name}",
        "target": device.name,
        "device": cache.content_key(text_of_device(device)),
        "donate": ", ".join(donated),
        "compiler": compiler_key(),
        "memory": str(budget()),
        "steps": cache.content_key(key, setting),
        "packages": "" if ours else _packages(),
        **_tools(),
        **told,
    }
    return ProgramKey(given.name, parts)


def compiler_key() -> str:
    """The digest of the compiler's own code."""
    return cache.code_key(".")


@once
def _tools() -> Mapping[str, str]:
    return {"python": sys.version, **{name: version(name) for name in TOOLS}}


def _packages() -> str:
    """Everything that is installed, by version: code of one's own may call it."""
    return _installed_in(tuple((place, _changed_ns(place)) for place in sys.path))


def _changed_ns(place: str) -> int:
    """When something was put into a folder, or out of it; 0 where there is none."""
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)  # to read what each package says of itself takes a tenth of a second
def _installed_in(places: tuple[tuple[str, int], ...]) -> str:
    """What is installed in folders, as they were changed last: a version lies under its own name,
    so another one changes its folder.
    """
    found = sorted(f"{d.name} {d.version}" for d in distributions())
    return cache.content_key(*found)


def _options(options: Any) -> dict[str, str] | None:
    """Each option by its group and name."""
    told: dict[str, str] = {}
    for group in fields(options):
        held = getattr(options, group.name)
        names = field_names(type(held))  # type: ignore[arg-type]
        values = {f"{group.name}.{n}": getattr(held, n) for n in names} or {group.name: held}
        for name, value in values.items():
            text = _text(value)
            if text is None:
                return None
            told[name] = text
    return told


def _is_plain(program: Program) -> bool:
    """Whether a program is told by its content in every process: it holds no function."""
    attrs = (v for _, b in program.bindings() for _, v in getattr(b.expr, "attrs", ()))
    return program.decisions == Decisions() and all(map(_is_data, attrs))


def _is_data(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_data, value))
    return isinstance(value, PLAIN) or is_symbolic(value)


def _text(value: Any) -> str | None:
    plain = isinstance(value, PLAIN) or (
        isinstance(value, tuple) and all(isinstance(item, PLAIN) for item in value)
    )
    return repr(value) if plain and len(repr(value)) <= SHORT else pass_key(value)


def _is_ours(value: Any, seen: set[int]) -> bool:
    """Whether nothing but code of this package stands in a value."""
    if isinstance(value, (*PLAIN, bytes, np.ndarray)) or is_symbolic(value) or id(value) in seen:
        return True
    seen.add(id(value))
    kind = type(value)
    if kind is OwnPass:
        return False
    if isinstance(value, FunctionType):
        return kind_of(module_of(value)) == "ours"
    if isinstance(value, Mapping):
        held: list[Any] = [item for pair in value.items() for item in pair]
    elif isinstance(value, tuple | frozenset | list):
        held = list(value)
    else:
        held = [object.__getattribute__(value, name) for name in field_names(kind)]  # type: ignore[arg-type]
        held += getattr(value, "__dict__", {}).values()
        if kind_of(kind.__module__) != "ours":
            return False
    return all(_is_ours(item, seen) for item in held)
