"""Where passes of the user's own stand in a pipeline: each after the step that it names.

(a, b, c) and (("b", mine),)   ->   (a, b, mine, c)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from explorer.errors import BadOption, did_you_mean
from explorer.ir.stage import Stage
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.own_pass import Judge, OwnPass
from explorer.passes.pipeline.pipeline import Step
from explorer.passes.pipeline.ranges import shown
from explorer.passes.pipeline.registry import Passes, PassRecord, called, name_of, passes


def named(given: Any) -> Passes:
    """Passes as options hold them, each under a name of its own; BadOption where that is not what
    is given.
    """
    if not isinstance(given, tuple | list):
        raise _malformed(given)
    out: list[tuple[str, OwnPass]] = []
    for entry in given:
        if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str)):
            raise _malformed(entry)
        after, run = entry
        if not isinstance(run, OwnPass):
            name = name_of(run)
            record = passes().get(name)
            run = _own(record, name, run) if record else OwnPass(name, called(run, name))
        _check_values(run.name, run.run)
        taken = [p.name for _, p in out]
        out.append((after, run if run.name not in taken else _again(run, taken)))
    return tuple(out)


def _own(record: PassRecord, name: str, run: Any) -> OwnPass:
    return OwnPass(name, called(run, name), record.paper, limits=record.limits)


def _again(run: OwnPass, taken: Sequence[str]) -> OwnPass:
    return replace(run, name=fresh(run.name, taken), judge=None)


def _malformed(found: object) -> BadOption:
    return BadOption(
        f"passes are pairs of a step's name and a pass that comes after it, not {str(found)[:80]}",
        where="passes",
        expected='(("legalise to kernels", my_pass), ...)',
        found=str(found)[:80],
    )


def of(passes: Passes) -> Iterator[tuple[str, OwnPass]]:
    """Passes as `named` leaves them."""
    for after, run in passes:
        assert isinstance(run, OwnPass), "options name their passes"
        yield after, run


def legal_values(run: object) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The options of a pass that say which values they may have: switches, and fields with
    `metadata={"values": (...)}`.
    """
    for field in fields(run) if is_dataclass(run) else ():
        values = field.metadata.get("values")
        if isinstance(values, tuple) and values:
            yield field.name, values
        elif isinstance(getattr(run, field.name), bool):
            yield field.name, (False, True)


def _check_values(name: str, run: object) -> None:
    for option, values in legal_values(run):
        found = getattr(run, option)
        if found not in values:
            known = ", ".join(map(shown, values))
            raise BadOption(
                f"{name}.{option} is one of {known}, found {shown(found)}",
                where=f"{name}.{option}",
                expected=known,
                found=shown(found),
            )


def settings(run: OwnPass) -> Iterator[tuple[str, str]]:
    """The options of a pass as `--set` has them, with their values."""
    if is_dataclass(run.run):
        for field in fields(run.run):
            yield f"{run.name}.{field.name}", shown(getattr(run.run, field.name))


def entered(given: Passes) -> Passes:
    """With the passes that were registered to enter every pipeline, unless one of these has the
    name.
    """
    taken = {run.name for _, run in of(given)}
    registered = tuple(
        (r.after, _own(r, r.name, r.run))
        for r in passes().values()
        if r.after and r.name not in taken
    )
    return (*registered, *given)


def placed(steps: Sequence[Step], own: Passes, tiled: Judge) -> tuple[Step, ...]:
    """The steps with each pass after the step that it names, and after those that stand there
    already; `tiled` judges what one makes of a program with tiles. BadOption where there is no such
    step, and where a step has the pass's name.
    """
    out = list(steps)
    follows = {s.name: s.name for s in steps}  # a pass -> the step of the pipeline before it
    for after, run in of(own):
        names = [s.name for s in out]
        if after not in names:
            raise _no_step(run.name, after, names)
        if run.name in names:
            raise BadOption(
                f"a step of the pipeline is named {run.name!r}: a pass needs another name",
                where=run.name,
                try_="register it under a name of its own",
            )
        at = names.index(after) + 1
        while at < len(out) and follows[out[at].name] == follows[after] != out[at].name:
            at += 1
        stage = out[at - 1].stage
        judged = replace(run, judge=tiled) if stage is Stage.ROLLED else run
        out.insert(at, Step(run.name, stage, judged))
        follows[run.name] = follows[after]
    return tuple(out)


def _no_step(name: str, after: str, names: Sequence[str]) -> BadOption:
    hint = did_you_mean(after, names) or f"; there are {', '.join(names)}"
    return BadOption(
        f"the pass {name!r} is to come after the step {after!r}, and there is none here{hint}",
        where=name,
        expected=", ".join(names),
        found=after,
        try_=f"register it again, or explorer.forget_pass({name!r})",
    )
