"""Challenges: a model and a machine are fixed, a compilation is handed in as a file that says what
was chosen, and whoever has the file finds its score again: no server, no trust.

The score is the simulated time of the wall, equal wherever it is computed. That the answers are
right, and whether the choice is faster than the default, is found on the machine that verifies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from explorer.compilation import Compilation
from explorer.compiler import compile
from explorer.errors import BadOption, IronworksError, SnapshotError
from explorer.frontends.load import load
from explorer.gradients import evaluate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.options import Options
from explorer.rammer.manual_moves import Move, PolicyWithMoves
from explorer.tuning.answers import agree
from explorer.tuning.compare import compare

VERSION = 1
MOST_BYTES = 1 << 16  # of a file that is handed in; chosen
VALUES = {
    t.__name__: t for t in (Tiling, Micro, PolicyWithMoves, Move)
}  # what a choice may be made of
PLAIN = Options(registered=False)
NEAR = 1e-6  # of a score: floating point on another machine; chosen


@dataclass(frozen=True, slots=True)
class Challenge:
    """`model` is to be compiled for `target` so that its simulated wall is short."""

    name: str
    title: str
    model: str
    target: str


CHALLENGES: MappingProxyType[str, Challenge] = MappingProxyType(
    {
        c.name: c
        for c in (
            Challenge("nerf", "a small NeRF on a V100", "zoo:small_nerf", "v100"),
            Challenge("lstm", "a small LSTM on a V100", "zoo:small_lstm", "v100"),
            Challenge("bert", "a small BERT on an H100", "zoo:small_bert", "h100"),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a file holds, verified: `score_us` as it was computed here, `default_us` that of the
    default options; `verdict` the clock's of this machine, empty where none was asked for;
    `refused` the sentence that says why the file does not count.
    """

    file: str
    challenge: str = ""
    score_us: float = 0.0
    default_us: float = 0.0
    verdict: str = ""
    refused: str = ""


def challenge(name: str) -> Challenge:
    """The challenge of a name; BadOption names those that there are."""
    if name not in CHALLENGES:
        known = ", ".join(CHALLENGES)
        raise BadOption(f"there is no challenge {name!r}", where=name, expected=known)
    return CHALLENGES[name]


def begin(name: str) -> Compilation:
    """The challenge under default options: change them by `with_options`, and submit."""
    asked = challenge(name)
    return compile(load(asked.model), target=asked.target, options=PLAIN)


def submit(name: str, compiled: Compilation, path: str | Path) -> Entry:
    """Write what was chosen, and the score, to a file. BadOption where it is another model or
    machine, or where a choice is code: a function in a file could not be verified by reading it.
    """
    asked = challenge(name)
    if compiled.model.digest != load(asked.model).digest or compiled.device.name != asked.target:
        raise BadOption(
            f"the challenge {name!r} is {asked.model} on {asked.target}, and this is "
            f"{compiled.model.name} on {compiled.device.name}",
            where=name,
            try_=f"course.begin({name!r})",
        )
    told = {
        "ironworks_challenge": VERSION,
        "challenge": name,
        "digest": compiled.model.digest,
        "options": _changed(compiled.options),
        "score_us": compiled.planned_wall().total_us,
    }
    Path(path).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return verify(path, seconds=0)


def verify(path: str | Path, seconds: float = 0.5) -> Entry:
    """What a file is worth: its choices are compiled again, its score and its answers are found
    anew. `seconds` is for the clock; with 0 it is not asked. What is wrong is said in the entry.
    """
    try:
        return _verified(Path(path), seconds)
    except (IronworksError, OSError) as problem:
        said = problem.sentence if isinstance(problem, IronworksError) else str(problem)
        return Entry(str(path), refused=said)


def _verified(path: Path, seconds: float) -> Entry:
    told = _read(path)
    asked = challenge(str(told.get("challenge")))
    default = begin(asked.name)
    if told.get("digest") != default.model.digest:
        raise SnapshotError(f"the file is of another model than {asked.model}", where=str(path))
    options = _options(told.get("options"))
    there = compile(default.model, target=asked.target, options=options)
    score = there.planned_wall().total_us
    claimed = told.get("score_us")
    if not isinstance(claimed, int | float) or abs(claimed - score) > NEAR * score:
        raise SnapshotError(
            f"the file claims {claimed!r} us, and its choices take {score:.3f} us",
            where=str(path),
            expected=f"{score:.3f}",
            actual=str(claimed),
        )
    verdict = _here(default, options, seconds)
    us = default.planned_wall().total_us
    return Entry(str(path), asked.name, score, us, verdict)


def _here(default: Compilation, options: Options, seconds: float) -> str:
    """The choices that make the program, on this machine: right answers, and the clock's verdict
    against the default. Tiles and placement are of the other machine, and are left out.
    """
    plain = compile(default.model, options=PLAIN)
    options = replace(options, roller=PLAIN.roller, rammer=PLAIN.rammer)
    own = compile(default.model, options=options)
    inputs = plain.random_inputs()
    expected = evaluate(default.model.program, inputs)
    found = own.run(inputs)
    wrong = [name for name, value in expected.items() if not agree(found[name], value)]
    if wrong:
        raise SnapshotError(f"with these choices the output {wrong[0]!r} is wrong")
    return str(compare(own, plain, inputs, seconds)) if seconds else ""


def table(entries: Sequence[Entry]) -> str:
    """Entries as lines of text, the shortest wall first, refused ones last."""
    lines = []
    for e in sorted(entries, key=lambda e: (bool(e.refused), e.challenge, e.score_us)):
        if e.refused:
            lines.append(f"{e.file}: refused: {e.refused}")
            continue
        ratio = e.default_us / e.score_us
        clock = f"; here {e.verdict}" if e.verdict else ""
        lines.append(f"{e.file}: {e.challenge} {e.score_us:.2f} us predicted, {ratio:.2f}x{clock}")
    return "\n".join(lines)


def _changed(options: Options) -> dict[str, dict[str, Any]]:
    """The fields of each group that are not the default's, as JSON holds them."""
    found: dict[str, dict[str, Any]] = {}
    for group in fields(Options):
        own, plain = getattr(options, group.name), getattr(PLAIN, group.name)
        if own == plain or group.name == "registered":
            continue
        if not is_dataclass(own):
            raise BadOption(f"{group.name} cannot be handed in: they are code", where=group.name)
        for field in fields(own):
            value = getattr(own, field.name)
            if value != getattr(plain, field.name):
                where = f"{group.name}.{field.name}"
                found.setdefault(group.name, {})[field.name] = _plain(value, where)
    return found


def _plain(value: object, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(v, where) for v in value]
    if type(value).__name__ in VALUES and is_dataclass(value):
        kept = {f.name: _plain(getattr(value, f.name), where) for f in fields(value)}
        return {"is": type(value).__name__, **kept}
    raise BadOption(
        f"{where} cannot be handed in: {type(value).__name__} is code, and a file holds choices",
        where=where,
        try_="a policy that ships, tiles, connections and moves by hand",
    )


def _read(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MOST_BYTES:
        raise SnapshotError(f"{path} is larger than 64 KiB", where=str(path))
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise SnapshotError(f"{path} is no JSON", where=str(path)) from problem
    if not isinstance(told, dict) or told.get("ironworks_challenge") != VERSION:
        raise SnapshotError(f"{path} is no entry of version {VERSION}", where=str(path))
    return told


def _options(told: object) -> Options:
    """The options that a file says; each group and field checks itself."""
    options = PLAIN
    known = {f.name for f in fields(Options) if is_dataclass(getattr(options, f.name))}
    if not isinstance(told, dict) or not set(told) <= known:
        raise SnapshotError(f"the file's options are not of {', '.join(sorted(known))}")
    try:
        for name, values in told.items():
            group = replace(getattr(options, name), **{k: _value(v) for k, v in values.items()})
            options = replace(options, **{name: group})
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as problem:
        raise SnapshotError(f"the file's options are none: {problem}") from problem
    return options


def _value(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(map(_value, told))
    if isinstance(told, dict):
        parts = {k: _value(v) for k, v in told.items() if k != "is"}
        return VALUES[told["is"]](**parts)
    return told
