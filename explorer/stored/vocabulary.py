"""Types whose values an entry may hold: frozen data of these modules, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import ModuleType

from explorer.codegen import build
from explorer.grinder import options as grinder_options
from explorer.ir import affine, calls, kernel, program, stage, types
from explorer.ir.decisions import (
    algorithms,
    candidate,
    control,
    decided,
    memory_plan,
    rematerialisation,
    rprogram,
    tile_graph,
    tiling,
    wall,
)
from explorer.ir.shapes import dims
from explorer.ir.tile_programs import elements, statements
from explorer.ir.tile_programs import program as tile_program
from explorer.rammer import options as rammer_options
from explorer.rammer import task_profile
from explorer.relax import options as relax_options
from explorer.relax import pattern_kinds
from explorer.relax.dispatch import pattern
from explorer.relax.dispatch import policy as dispatch_policy
from explorer.relax.fusion import model as fusion_model
from explorer.relax.memory import plan, workspace

MODULES: tuple[ModuleType, ...] = (
    affine,
    algorithms,
    build,
    calls,
    candidate,
    control,
    decided,
    dims,
    dispatch_policy,
    elements,
    fusion_model,
    grinder_options,
    kernel,
    memory_plan,
    pattern,
    pattern_kinds,
    plan,
    program,
    rammer_options,
    relax_options,
    rematerialisation,
    rprogram,
    stage,
    statements,
    task_profile,
    tile_graph,
    tile_program,
    tiling,
    types,
    wall,
    workspace,
)


@dataclass(frozen=True, slots=True)
class Code:
    """Code of a kernel call: the key of its cache entry, and its printed source."""

    call: str
    key: str
    source: str
    tile_program: tile_program.TileProgram
    arguments: tuple[build.Argument, ...]


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step that led to the program, and its seconds when it ran."""

    name: str
    stage: stage.Stage
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """Content of an entry."""

    program: program.Program
    codes: tuple[Code, ...]
    steps: tuple[StoredStep, ...]


@cache
def kinds() -> Mapping[str, type]:
    """Return the types by the names that entries use."""
    by_name: dict[str, type] = {"Entry": Entry, "Code": Code, "StoredStep": StoredStep}
    for module in MODULES:
        for name, kind in vars(module).items():
            is_local = isinstance(kind, type) and kind.__module__ == module.__name__
            if is_local and (is_dataclass(kind) or issubclass(kind, Enum)) and not _is_called(kind):
                by_name[f"{module.__name__}.{name}"] = kind
    return by_name


@cache
def names() -> Mapping[type, str]:
    """Return the names by type."""
    return {kind: name for name, kind in kinds().items()}


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a frozen value in the order of its constructor."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


def _is_called(kind: type) -> bool:
    """Return True if instances of a type can be called."""
    return any("__call__" in vars(base) for base in kind.__mro__)
