"""Whole programs in the cache folder: kept once, found by later processes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

from explorer import cache
from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object.object_code import loaded
from explorer.counters import counters
from explorer.devices.model import Device
from explorer.forking import ForkLock
from explorer.frontends.model import Model
from explorer.ir.program import Constant, Program, SourceOp
from explorer.stored import constants
from explorer.stored.program_key import ProgramKey
from explorer.stored.read import Unreadable, read
from explorer.stored.vocabulary import Code, StepRow, Whole
from explorer.stored.written import Unwritable, written

REMEMBERED = 1024


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Found:
    """A program as it was kept, with its code in memory; what each step took when it ran."""

    program: Program
    codes: Mapping[str, KernelCode]
    steps: tuple[StepRow, ...]


Known: TypeAlias = tuple[str, tuple[SourceOp, ...]]  # a key, and whose operators were named
_made: OrderedDict[Known, None] = OrderedDict()  # what this process compiled itself
_found: WeakValueDictionary[Known, Found] = WeakValueDictionary()
_lock = ForkLock()


def find(
    wanted: ProgramKey, given: Model, device: Device, remake: constants.Remake
) -> Found | None:
    """The program under a key. None where there is none, or none that can be used, which is then
    removed; and where this process has compiled it: it remembers more than the folder does.
    `remake` runs the passes for their constants, should these be gone when they are asked for.
    """
    known = wanted.key, given.program.sources
    with _lock:
        if known in _made:
            return None
        found = _found.get(known)
    if found is None:
        found = _on_disk(wanted.key, given, device, remake)
        counters.add("program_misses" if found is None else "program_hits")
    if found is not None:
        with _lock:
            _found[known] = found
    return found


def in_memory(key: str | None) -> bool:
    """Whether this process compiled the program of a key, or has opened it and holds it."""
    with _lock:
        return any(known == key for known, _ in (*_made, *_found))


def keep(
    wanted: ProgramKey,
    given: Model,
    program: Program,
    codes: Mapping[str, KernelCode],
    steps: Sequence[StepRow],
) -> None:
    """After: the program is under its key, unless it holds what no entry may hold, or too much;
    soon, where it takes long enough to be waited for.
    """
    with _lock:
        _made[wanted.key, given.program.sources] = None
        while len(_made) > REMEMBERED:
            _made.popitem(last=False)
    store = cache.disk()
    if store.has(wanted.key):
        return
    known, words = _given(given), _numbers(given)
    own = {id(value) for value in known.values()}
    names = {id(c): name for name, c in program.constants.items() if id(c) not in own}
    derived = {name: program.constants[name] for name in names.values()}
    whole = Whole(program, tuple(_code(name, code) for name, code in codes.items()), tuple(steps))
    write = partial(_write, store, wanted, whole, known, derived, words)
    if constants.bytes_of(derived.values()) < constants.MANY_BYTES:
        write()
    else:
        cache.later(write)


def _write(
    store: cache.DiskStore,
    wanted: ProgramKey,
    whole: Whole,
    given: Mapping[str, object],
    derived: Mapping[str, Constant],
    words: Mapping[str, str],
) -> None:
    rows = constants.kept(derived, store)
    if rows is None:
        return
    known = {**given, **{f"derived {name}": constant for name, constant in derived.items()}}
    try:
        text = written(whole, known, words)
    except Unwritable:
        return
    cache.remember_parts(store, wanted.model, wanted.parts)
    store.put(wanted.key, json.dumps(rows).encode() + b"\n" + text, "program")


def _given(given: Model) -> dict[str, object]:
    """What every process has that has the model."""
    return {
        "sources": given.program.sources,
        **{f"constant {name}": c for name, c in given.program.constants.items()},
    }


def _numbers(given: Model) -> dict[str, str]:
    """The operators of Python's by their numbers: their names say in which line they stand, which
    changes nothing.
    """
    if not given.python:
        return {}
    return {s.name: f"\0source {n}" for n, s in enumerate(given.program.sources)}


def _code(name: str, code: KernelCode) -> Code:
    return Code(name, code.key, code.source, code.tile_program, code.arguments)


def _on_disk(key: str, given: Model, device: Device, remake: constants.Remake) -> Found | None:
    data = cache.get(key)
    if data is None:
        return None
    try:
        found = _opened(data, given, device, remake)
    except Unreadable:
        found = None
    if found is None:
        cache.disk().discard(key)
    return found


def _opened(data: bytes, given: Model, device: Device, remake: constants.Remake) -> Found | None:
    """None where a constant or the code of a kernel is not there any more."""
    head, _, text = data.partition(b"\n")
    batch = constants.Batch(_rows(head), remake)
    if not batch.is_there:
        return None
    derived = {
        f"derived {row.name}": constants.KeptConstant(batch, n) for n, row in enumerate(batch.rows)
    }
    names = {number: name for name, number in _numbers(given).items()}
    whole = read(text, {**_given(given), **derived}, names)
    if not isinstance(whole, Whole) or not isinstance(whole.program, Program):
        raise Unreadable("it holds another value")
    codes: dict[str, KernelCode] = {}
    for code in whole.codes:
        machine = loaded(code.key)
        if machine is None:
            return None
        codes[code.call] = KernelCode(
            code.source, machine, code.tile_program, code.arguments, device.target
        )
    return Found(whole.program, codes, whole.steps)


def _rows(head: bytes) -> list[constants.Row]:
    try:
        return [constants.row_of(told) for told in json.loads(head)]
    except Exception as problem:  # bytes that others wrote may be anything
        raise Unreadable(f"{type(problem).__name__}: {problem}") from problem
