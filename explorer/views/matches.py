"""Matches of a step's rules: the rule, the place, and the bindings before and after.

For steps whose rules report no match: the separate parts in which two programs differ. A rule is
described by its file, its line, its text and its docstring.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import pipeline
from explorer.errors import BadOption, IronworksError
from explorer.ir.program import Binding, Program
from explorer.passes.registry import current_name
from explorer.passes.snapshots import Snapshot, Step
from explorer.passes.user_pass import UserPass
from explorer.transforms.rewrite import Rewrite, recording
from explorer.views.differences import difference

ROOT = Path(__file__).parents[2]
LONGEST_SECONDS = 2.0  # that a step took and is still run again for its matches; chosen


@dataclass(frozen=True, slots=True)
class StepMatch:
    """One application of a rule: the matched bindings and their replacement.

    `title` is its name for readers. `traced` is True if the rule reported the match; otherwise this
    is a part of the program that differs after the step.
    """

    rule: Rule
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    traced: bool
    title: str

    @property
    def ops(self) -> frozenset[str]:
        """The source operators of these bindings."""
        return frozenset[str]().union(*(b.origin for b in (*self.before, *self.after)))


def step_of(c: Compilation, name: str) -> Step:
    """Return the step of that name in the compilation's pipeline, or raise BadOption."""
    steps = pipeline(c.options, c.device)
    for step in steps:
        if step.name == name:
            return step
    step_names = ", ".join(s.name for s in steps)
    raise BadOption(f"there is no step {name[:40]!r}", where=name[:40], expected=step_names)


def matches(c: Compilation, step: str) -> tuple[StepMatch, ...]:
    """Return the matches of a step's rules in order, by running the step again.

    After them come the parts that differ and that no rule reported. A step that takes long, or now
    gives another result, has such parts only.

    Raises:
        BadOption: There is no such step.
    """
    step = current_name(step)
    run = step_of(c, step)
    snapshot = next((s for s in c.snapshots if s.name == step), None)
    if snapshot is None:
        raise BadOption(f"the step {step!r} was not run", where=step, try_="compile further")
    rule = rule_of(run.run)
    if snapshot.before is snapshot.after:
        return ()
    traced = _traced_matches(run, snapshot) if snapshot.seconds <= LONGEST_SECONDS else ()
    traced_names = {b.name for m in traced for b in (*m.before, *m.after)}
    parts = regions(snapshot.before, snapshot.after)
    others = (both for both in parts if not traced_names or _names(both) - traced_names)
    return (*traced, *(StepMatch(rule, old, new, False, step) for old, new in others))


def _names(both: tuple[tuple[Binding, ...], ...]) -> set[str]:
    """Return the names of all bindings of a part."""
    return {b.name for part in both for b in part}


def _traced_matches(step: Step, snapshot: Snapshot) -> Sequence[StepMatch]:
    """Return the matches that the rules report, or none if the step now gives another result."""
    try:
        with recording() as records:
            after = step.run(snapshot.before)
    except IronworksError:  # a user's pass may fail the second time
        return ()
    if difference(snapshot.after, after):
        return ()
    with_rules = [(m, rule_of(m.rule)) for m in records]
    return [StepMatch(r, m.before, m.after, True, m.title or r.title) for m, r in with_rules]


def regions(before: Program, after: Program) -> Iterator[tuple[tuple[Binding, ...], ...]]:
    """Yield the bindings of each part before and after, in the order of the first program.

    Bindings with common source operators, and pairs of bindings, belong to one part.
    """
    changes = [c for c in difference(before, after).changes if c.what not in ("loop", "output")]
    parent = list(range(len(changes)))

    def root(n: int) -> int:
        """Return the representative of a change (union-find)."""
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    first: dict[str, int] = {}
    for n, change in enumerate(changes):
        for op in change.ops:
            parent[root(n)] = root(first.setdefault(op, n))
    parts: dict[int, list[int]] = defaultdict(list)
    for n in range(len(changes)):
        parts[root(n)].append(n)
    for members in parts.values():
        old = sorted({p.number: p for n in members if (p := changes[n].before)}.items())
        new = sorted({p.number: p for n in members if (p := changes[n].after)}.items())
        yield tuple(p.binding for _, p in old), tuple(p.binding for _, p in new)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite rule.

    `file` is a path from the project's root, or Python's name of a notebook's cell; `line` is 0 if
    the text is not available.
    """

    name: str
    file: str = ""
    line: int = 0
    says: str = ""
    source: str = ""

    @property
    def place(self) -> str:
        """The file and the line, as an editor opens them."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def title(self) -> str:
        """Its name in words: `_Folder._merge_views` is "merge views".

        A closure is named after the function that made it.
        """
        return self.name.partition(".<locals>")[0].rpartition(".")[2].strip("_").replace("_", " ")

    @property
    def short(self) -> str:
        """The first sentence of its docstring."""
        return self.says.partition("\n\n")[0].replace("\n", " ")


def rule_of(run: Any) -> Rule:
    """Return the source of a function, or of the class of a callable object."""
    return _written(_defined(run))


def _defined(run: Any) -> Any:
    """Return the user-written function or class inside a wrapper."""
    match run:
        case UserPass(_, inner, _, _, _) | Rewrite(inner):
            return _defined(inner)
        case partial():
            return _defined(run.func)
        case MethodType():
            return run.__func__
        case FunctionType() | type():
            return inspect.unwrap(run) if isinstance(run, FunctionType) else run
    return type(run)


@lru_cache(maxsize=1024)
def _written(defined: Callable[..., Any]) -> Rule:
    """Read the source of a function or class."""
    name = getattr(defined, "__qualname__", str(defined))
    says = inspect.getdoc(defined) or ""
    if says.startswith(f"{name}(") or defined.__module__ == "builtins":
        says = ""  # what a dataclass says of itself is its signature
    try:
        lines, line = inspect.getsourcelines(defined)
        file = inspect.getsourcefile(defined) or ""
    except (OSError, TypeError):
        return Rule(name, says=says)
    path = Path(file)
    shown = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file
    return Rule(name, shown, line, says, _text(lines))


def _text(lines: list[str]) -> str:
    """Return lines without their common indentation."""
    least = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    return "".join(x[least:] if x.strip() else "\n" for x in lines)
