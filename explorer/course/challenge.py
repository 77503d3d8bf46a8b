"""Challenges: a fixed model and machine, and a score that anybody can compute again from a file.

A compilation is handed in as a file that states its choices. Its score is the simulated time of the
wall, which is the same on every machine. The verifying machine checks the answers and whether the
choices are faster than the default. No server and no trust are needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.errors import BadOption, IronworksError, SnapshotError
from explorer.frontends.load import load
from explorer.gradients import evaluate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.rammer.manual_moves import Move, PolicyWithMoves
from explorer.tuning.compare import agree, compare

VERSION = 1
MOST_BYTES = 1 << 16  # limit of a submitted file; chosen
VALUES = {
    t.__name__: t for t in (Tiling, Micro, PolicyWithMoves, Move)
}  # types that a choice may hold
PLAIN = Options(registered=False)
NEAR = 1e-6  # relative tolerance of scores between machines; chosen


CHOICES = frozenset(
    {
        *(f"recurrent.{name}" for name in ("hoist", "order", "split", "unroll")),
        *(f"relax.{name}" for name in ("fuse", "dispatch", "lift")),
        *(f"grinder.{name}" for name in ("schedule", "unroll", "inline_branches", "recursion")),
        *(f"grinder.{name}" for name in ("independent", "alone", "memoise", "depth")),
        *(f"welder.{name}" for name in ("enabled", "policy", "connect")),
        *(f"softmax.{name}" for name in ("enabled", "block")),
        *(f"convolution.{name}" for name in ("algorithm", "margin")),
        *(f"roller.{name}" for name in ("policy", "top_k", "pinned")),
        *(f"rammer.{name}" for name in ("policy", "brick_tasks", "bricks", "meet")),
    }
)  # neither the machine and its measured times, nor the steps that keep a program right


@dataclass(frozen=True, slots=True)
class Challenge:
    """A model to compile for a target so that its simulated wall is short.

    `choices` are the options that an entry may change.
    """

    name: str
    title: str
    model: str
    target: str
    choices: frozenset[str] = CHOICES


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
    """The verified content of a file.

    `score_us` was computed here, and `default_us` is that of the default options. `verdict` is the
    timing on this machine, empty without one. `refused` is the reason why the file does not count.
    """

    file: str
    challenge: str = ""
    score_us: float = 0.0
    default_us: float = 0.0
    verdict: str = ""
    refused: str = ""


def challenge(name: str) -> Challenge:
    """Return the challenge of a name.

    Raises:
        BadOption: there is none; the error lists those that exist.
    """
    if name not in CHALLENGES:
        names = ", ".join(CHALLENGES)
        raise BadOption(f"there is no challenge {name!r}", where=name, expected=names)
    return CHALLENGES[name]


def begin(name: str) -> Compilation:
    """Compile the challenge with default options: change them with `with_options`, and submit."""
    spec = challenge(name)
    return compile(load(spec.model), target=spec.target, options=PLAIN)


def submit(name: str, compiled: Compilation, path: str | Path) -> Entry:
    """Write the choices and the score of a compilation to a file.

    Raises:
        BadOption: the model or the machine is another one, or a choice is code. A function in a
            file could not be verified by reading it.
    """
    spec = challenge(name)
    if compiled.model.digest != load(spec.model).digest or compiled.device.name != spec.target:
        raise BadOption(
            f"the challenge {name!r} is {spec.model} on {spec.target}, and this is "
            f"{compiled.model.name} on {compiled.device.name}",
            where=name,
            try_=f"course.begin({name!r})",
        )
    entry = {
        "ironworks_challenge": VERSION,
        "challenge": name,
        "digest": compiled.model.digest,
        "options": _choices_of(changed_options(compiled.options), spec),
        "score_us": compiled.planned_wall().total_us,
    }
    Path(path).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    return verify(path, seconds=0)


def verify(path: str | Path, seconds: float = 0.5) -> Entry:
    """Verify a file: compile its choices, and compute its score and its answers.

    `seconds` is the time for measuring; 0 skips it. A problem is stated in the entry.
    """
    try:
        return _verify(Path(path), seconds)
    except (IronworksError, OSError) as problem:
        reason = problem.sentence if isinstance(problem, IronworksError) else str(problem)
        return Entry(str(path), refused=reason)


def _verify(path: Path, seconds: float) -> Entry:
    entry = _read_entry(path)
    spec = challenge(str(entry.get("challenge")))
    default = begin(spec.name)
    if entry.get("digest") != default.model.digest:
        raise SnapshotError(f"the file is of another model than {spec.model}", where=str(path))
    options = read_options(_choices_of(entry.get("options"), spec))
    compiled = compile(default.model, target=spec.target, options=options)
    score = compiled.planned_wall().total_us
    claimed = entry.get("score_us")
    if not isinstance(claimed, int | float) or abs(claimed - score) > NEAR * score:
        raise SnapshotError(
            f"the file claims {claimed!r} us, and its choices take {score:.3f} us",
            where=str(path),
            expected=f"{score:.3f}",
            actual=str(claimed),
        )
    verdict = _run_here(default, options, seconds)
    us = default.planned_wall().total_us
    return Entry(str(path), spec.name, score, us, verdict)


def _run_here(default: Compilation, options: Options, seconds: float) -> str:
    """Check the choices that change the program on this machine and time them.

    The answers must be right; the verdict compares with the default. Tiles and placement belong to
    the other machine and are left out.
    """
    plain = compile(default.model, options=PLAIN)
    options = replace(options, roller=PLAIN.roller, rammer=PLAIN.rammer)
    own = compile(default.model, options=options)
    inputs = plain.random_inputs()
    expected = evaluate(default.model.program, inputs)
    outputs = own.run(inputs)
    wrong = [name for name, value in expected.items() if not agree(outputs[name], value)]
    if wrong:
        raise SnapshotError(f"with these choices the output {wrong[0]!r} is wrong")
    return str(compare(own, plain, inputs, seconds)) if seconds else ""


def table(entries: Sequence[Entry]) -> str:
    """Format entries as lines of text, the shortest wall first, refused ones last."""
    lines = []
    for e in sorted(entries, key=lambda e: (bool(e.refused), e.challenge, e.score_us)):
        if e.refused:
            lines.append(f"{e.file}: refused: {e.refused}")
            continue
        ratio = e.default_us / e.score_us
        clock = f"; here {e.verdict}" if e.verdict else ""
        lines.append(f"{e.file}: {e.challenge} {e.score_us:.2f} us predicted, {ratio:.2f}x{clock}")
    return "\n".join(lines)


def changed_options(options: Options) -> dict[str, dict[str, Any]]:
    """Return the fields of each group that differ from the default, as JSON values."""
    changes: dict[str, dict[str, Any]] = {}
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
                changes.setdefault(group.name, {})[field.name] = _to_json(value, where)
    return changes


def _choices_of(changes: Any, spec: Challenge) -> Any:
    """Return changed options as they are, if all are choices of a challenge.

    Raises:
        BadOption: one is none; what cannot be read is refused by `read_options`.
    """
    groups = changes.items() if isinstance(changes, dict) else ()
    places = [f"{g}.{name}" for g, names in groups if isinstance(names, dict) for name in names]
    for where in places:
        if where not in spec.choices:
            raise BadOption(
                f"{where} cannot be handed in: it is no choice of the challenge {spec.name!r}",
                where=where,
            )
    return changes


def _to_json(value: object, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_to_json(v, where) for v in value]
    if type(value).__name__ in VALUES and is_dataclass(value):
        parts = {f.name: _to_json(getattr(value, f.name), where) for f in fields(value)}
        return {"is": type(value).__name__, **parts}
    raise BadOption(
        f"{where} cannot be handed in: {type(value).__name__} is code, and a file holds choices",
        where=where,
        try_="a policy that ships, tiles, connections and moves by hand",
    )


def _read_entry(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MOST_BYTES:
        raise SnapshotError(f"{path} is larger than 64 KiB", where=str(path))
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise SnapshotError(f"{path} is no JSON", where=str(path)) from problem
    if not isinstance(entry, dict) or entry.get("ironworks_challenge") != VERSION:
        raise SnapshotError(f"{path} is no entry of version {VERSION}", where=str(path))
    return entry


def read_options(stored: object) -> Options:
    """Return the options of a file; each group and field checks itself."""
    options = PLAIN
    groups = {f.name for f in fields(Options) if is_dataclass(getattr(options, f.name))}
    if not isinstance(stored, dict) or not set(stored) <= groups:
        raise SnapshotError(f"the file's options are not of {', '.join(sorted(groups))}")
    try:
        for name, values in stored.items():
            group = replace(getattr(options, name), **{k: _from_json(v) for k, v in values.items()})
            options = replace(options, **{name: group})
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as problem:
        raise SnapshotError(f"the file's options are invalid: {problem}") from problem
    return options


def _from_json(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(map(_from_json, stored))
    if isinstance(stored, dict):
        parts = {k: _from_json(v) for k, v in stored.items() if k != "is"}
        return VALUES[stored["is"]](**parts)
    return stored
