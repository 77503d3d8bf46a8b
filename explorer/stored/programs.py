"""Whole programs in the cache folder, for later processes, and the tiers that hold them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

from explorer import cache
from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object_code import loaded
from explorer.devices.model import Device
from explorer.frontends.model import Model
from explorer.ir.program import Constant, Program, SourceOp
from explorer.process.counters import counters
from explorer.process.forking import ForkLock
from explorer.stored import constants
from explorer.stored.program_key import ProgramKey, WhyNot
from explorer.stored.serialize import (
    Code,
    Entry,
    StoredStep,
    Unreadable,
    Unwritable,
    deserialize,
    serialize,
)

REMEMBERED = 1024


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CachedProgram:
    """A program from the cache with its loaded code, and what each step took when it ran."""

    program: Program
    codes: Mapping[str, KernelCode]
    steps: tuple[StoredStep, ...]


Identity: TypeAlias = tuple[str, tuple[SourceOp, ...]]  # a key, and whose operators were named
_compiled_here: OrderedDict[Identity, None] = OrderedDict()  # what this process compiled itself
_open_programs: WeakValueDictionary[Identity, CachedProgram] = WeakValueDictionary()
_lock = ForkLock()


def find(
    key: ProgramKey, model: Model, device: Device, remake: constants.Remake
) -> CachedProgram | None:
    """Return the program under a key, or None.

    None also if the entry is unusable, which is then removed, and if this process has compiled the
    program: it remembers more than the folder holds. `remake` runs the passes again for their
    constants if these are gone when they are used.
    """
    identity = key.key, model.program.sources
    with _lock:
        if identity in _compiled_here:
            return None
        program = _open_programs.get(identity)
    if program is None:
        program = _on_disk(key.key, model, device, remake)
        counters.add("program_misses" if program is None else "program_hits")
    if program is not None:
        with _lock:
            _open_programs[identity] = program
    return program


def in_memory(key: str | None) -> bool:
    """Return True if this process compiled the program of a key, or holds it open."""
    with _lock:
        return any(held_key == key for held_key, _ in (*_compiled_here, *_open_programs))


def store_program(
    key: ProgramKey,
    model: Model,
    program: Program,
    codes: Mapping[str, KernelCode],
    steps: Sequence[StoredStep],
) -> None:
    """Store a program under its key, unless it holds values that cannot be stored or is too large.

    Large programs are written in the background.
    """
    with _lock:
        _compiled_here[key.key, model.program.sources] = None
        while len(_compiled_here) > REMEMBERED:
            _compiled_here.popitem(last=False)
    store = cache.disk()
    if store.has(key.key):
        return
    model_objects, words = _model_objects(model), _operator_numbers(model)
    model_constants = {id(value) for value in model_objects.values()}
    names = {id(c): name for name, c in program.constants.items() if id(c) not in model_constants}
    derived = {name: program.constants[name] for name in names.values()}
    entry = Entry(program, tuple(_code(name, code) for name, code in codes.items()), tuple(steps))
    write = partial(_write, store, key, entry, model_objects, derived, words)
    if constants.bytes_of(derived.values()) < constants.MANY_BYTES:
        write()
    else:
        cache.later(write)


def _write(
    store: cache.DiskStore,
    key: ProgramKey,
    entry: Entry,
    model_objects: Mapping[str, object],
    derived: Mapping[str, Constant],
    words: Mapping[str, str],
) -> None:
    """Write an entry: its constants, then the program."""
    rows = constants.store_constants(derived, store)
    if rows is None:
        return
    objects = {
        **model_objects,
        **{f"derived {name}": constant for name, constant in derived.items()},
    }
    try:
        text = serialize(entry, objects, words)
    except Unwritable:
        return
    cache.remember_parts(store, key.model, key.parts)
    store.put(key.key, json.dumps(rows).encode() + b"\n" + text, "program")


def _model_objects(model: Model) -> dict[str, object]:
    """Return the objects that every process with the model has."""
    return {
        "sources": model.program.sources,
        **{f"constant {name}": c for name, c in model.program.constants.items()},
    }


def _operator_numbers(model: Model) -> dict[str, str]:
    """Return numbers for the operators of a Python function.

    Their names hold line numbers, which do not change the program.
    """
    if not model.python:
        return {}
    return {s.name: f"\0source {n}" for n, s in enumerate(model.program.sources)}


def _code(name: str, code: KernelCode) -> Code:
    """Return the stored form of a kernel's code."""
    return Code(name, code.key, code.source, code.tile_program, code.arguments)


def _on_disk(
    key: str, model: Model, device: Device, remake: constants.Remake
) -> CachedProgram | None:
    """Open the entry under a key; remove it if it is unusable."""
    data = cache.get(key)
    if data is None:
        return None
    try:
        program = _opened(data, model, device, remake)
    except Unreadable:
        program = None
    if program is None:
        cache.disk().discard(key)
    return program


def _opened(
    data: bytes, model: Model, device: Device, remake: constants.Remake
) -> CachedProgram | None:
    """Open an entry; return None if a constant or the code of a kernel is missing."""
    head, _, text = data.partition(b"\n")
    batch = constants.Batch(_rows(head), remake)
    if not batch.is_there:
        return None
    names = {number: name for name, number in _operator_numbers(model).items()}
    entry = deserialize(text, {**_model_objects(model), **batch.constants()}, names)
    if not isinstance(entry, Entry) or not isinstance(entry.program, Program):
        raise Unreadable("it holds another value")
    codes: dict[str, KernelCode] = {}
    for code in entry.codes:
        machine = loaded(code.key)
        if machine is None:
            return None
        codes[code.call] = KernelCode(
            code.source, machine, code.tile_program, code.arguments, device.isa
        )
    return CachedProgram(entry.program, codes, entry.steps)


def _rows(head: bytes) -> list[constants.ConstantRow]:
    """Read the rows of an entry's constants."""
    try:
        return [constants.row_of(fields) for fields in json.loads(head)]
    except Exception as problem:  # bytes that others wrote may be anything
        raise Unreadable(f"{type(problem).__name__}: {problem}") from problem


@dataclass(frozen=True, slots=True)
class Tier:
    """A place to look: True if it has the whole program, and the number of its kernels there."""

    name: str
    place: str
    program: bool
    kernels: int


@dataclass(frozen=True, slots=True)
class Tiers:
    """The key of a compilation, or None; the tiers in lookup order; and the reason of a miss."""

    key: ProgramKey | None
    why: WhyNot
    tiers: tuple[Tier, ...]
    kernels: int


def find_tiers(program: ProgramKey | None, why: WhyNot, kernels: Iterable[str]) -> Tiers:
    """Return where a program and the kernels of these keys are now."""
    cache.finish()
    keys, digest = tuple(dict.fromkeys(kernels)), program.key if program else None
    own, shared = cache.disk(), cache.team()
    tiers = [Tier("memory", "this process", in_memory(digest), len(keys))]
    for name, store in (("private", own), ("team", shared)):
        if store is not None:
            there = digest is not None and store.has(digest)
            tiers.append(Tier(name, str(store.folder), there, sum(map(store.has, keys))))
    return Tiers(program, why, tuple(tiers), len(keys))
