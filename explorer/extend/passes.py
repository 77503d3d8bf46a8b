"""Placement of user-defined passes in a pipeline: each after the step that it names.

(a, b, c) and (("b", mine),)   ->   (a, b, mine, c)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from explorer.errors import BadOption, did_you_mean
from explorer.ir.program import Program, fresh
from explorer.ir.stage import Stage
from explorer.passes.ranges import shown
from explorer.passes.registry import Passes, PassRecord, as_callable, current_name, name_of, passes
from explorer.passes.snapshots import Step
from explorer.passes.user_pass import UserPass


def name_passes(passes_option: Any) -> Passes:
    """Return the passes of options, each under a unique name; BadOption if they are malformed."""
    if not isinstance(passes_option, tuple | list):
        raise _malformed_error(passes_option)
    out: list[tuple[str, UserPass]] = []
    for entry in passes_option:
        if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str)):
            raise _malformed_error(entry)
        after, run = entry
        if not isinstance(run, UserPass):
            name = name_of(run)
            record = passes().get(name)
            run = (
                _user_pass(record, name, run) if record else UserPass(name, as_callable(run, name))
            )
        _check_values(run.name, run.run)
        taken = [p.name for _, p in out]
        out.append(
            (current_name(after), run if run.name not in taken else _with_fresh_name(run, taken))
        )
    return tuple(out)


def _user_pass(record: PassRecord, name: str, run: Any) -> UserPass:
    return UserPass(name, as_callable(run, name), record.paper, limits=record.limits)


def _with_fresh_name(run: UserPass, taken: Sequence[str]) -> UserPass:
    return replace(run, name=fresh(run.name, taken), judge=None)


def _malformed_error(value: object) -> BadOption:
    return BadOption(
        f"passes are pairs of a step's name and a pass that comes after it, not {str(value)[:80]}",
        where="passes",
        expected='(("legalise to kernels", my_pass), ...)',
        actual=str(value)[:80],
    )


def typed_passes(passes: Passes) -> Iterator[tuple[str, UserPass]]:
    """Yield the passes that `name_passes` returned, with their type."""
    for after, run in passes:
        assert isinstance(run, UserPass), "options name their passes"
        yield after, run


def legal_values(run: object) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the options of a pass that declare their legal values.

    These are switches, and fields with `metadata={"values": (...)}`.
    """
    for field in fields(run) if is_dataclass(run) else ():
        values = field.metadata.get("values")
        if isinstance(values, tuple) and values:
            yield field.name, values
        elif isinstance(getattr(run, field.name), bool):
            yield field.name, (False, True)


def _check_values(name: str, run: object) -> None:
    for option, values in legal_values(run):
        value = getattr(run, option)
        if value not in values:
            legal = ", ".join(map(shown, values))
            raise BadOption(
                f"{name}.{option} is one of {legal}, found {shown(value)}",
                where=f"{name}.{option}",
                expected=legal,
                actual=shown(value),
            )


def settings(run: UserPass) -> Iterator[tuple[str, str]]:
    """Yield the options of a pass in the form of `--set`, with their values."""
    if is_dataclass(run.run):
        for field in fields(run.run):
            yield f"{run.name}.{field.name}", shown(getattr(run.run, field.name))


def with_registered(chosen: Passes) -> Passes:
    """Add the registered passes that enter every pipeline, unless one of these has the name."""
    taken = {run.name for _, run in typed_passes(chosen)}
    registered = tuple(
        (r.after, _user_pass(r, r.name, r.run))
        for r in passes().values()
        if r.after and r.name not in taken
    )
    return (*registered, *chosen)


@dataclass(frozen=True, slots=True)
class Soundness:
    """A check of a pass's result: each changed binding is of its type, and each tiling is legal.

    `tiled` returns why a tiling is illegal; None before kernels have tilings.
    """

    tiled: Callable[[Program], str] | None = None

    def __call__(self, before: Program, after: Program) -> str:
        """Return what is wrong with the result in words, "" if nothing."""
        from explorer.relax.deduction.wrong_types import find_wrong_type  # only for users' passes

        types = find_wrong_type(before, after) if after.stage >= Stage.TYPED else ""
        return types or ("" if self.tiled is None else self.tiled(after))


def insert_passes(
    steps: Sequence[Step], own: Passes, tiled: Callable[[Program], str]
) -> tuple[Step, ...]:
    """Insert each pass after the step that it names, and after passes already there.

    `tiled` judges the tilings of a program. BadOption if there is no such step, or if a step has
    the pass's name.
    """
    out = list(steps)
    follows = {s.name: s.name for s in steps}  # by pass, the pipeline's step before it
    for after, run in typed_passes(own):
        names = [s.name for s in out]
        if after not in names:
            raise _missing_step_error(run.name, after, names)
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
        judge = Soundness(tiled if stage is Stage.ROLLED else None)
        out.insert(at, Step(run.name, stage, replace(run, judge=judge)))
        follows[run.name] = follows[after]
    return tuple(out)


CODE_STEP = "generate code"  # of a compilation; it makes machine code, and is no step of programs


def _missing_step_error(name: str, after: str, names: Sequence[str]) -> BadOption:
    if after == CODE_STEP:
        return BadOption(
            f"the pass {name!r} is placed after {after!r}, which makes machine code of the last "
            "program: no pass follows it",
            where=name,
            actual=after,
            try_=f"after={names[-1]!r}",
        )
    hint = did_you_mean(after, names) or f"; there are {', '.join(names)}"
    return BadOption(
        f"the pass {name!r} is placed after the step {after!r}, which this pipeline does not have"
        f"{hint}",
        where=name,
        expected=", ".join(names),
        actual=after,
        try_=f"register it again, or explorer.forget_pass({name!r})",
    )
