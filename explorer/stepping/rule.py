"""Where a rule is written: its file, its line, its text, and what it says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from explorer.passes.pipeline.own_pass import OwnPass
from explorer.passes.simplify.own_rewrite import Rewrite

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of rewriting. `file` is a path from the project's root, or what Python calls a cell of
    a notebook; 0 is the `line` of one whose text nobody has.
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
        """Its name in words: `_Folder._as_view` is "as view", what a function makes is called as
        that.
        """
        return self.name.partition(".<locals>")[0].rpartition(".")[2].strip("_").replace("_", " ")

    @property
    def short(self) -> str:
        """The first sentence of what it says of itself."""
        return self.says.partition("\n\n")[0].replace("\n", " ")


def rule_of(run: Any) -> Rule:
    """Where a rule or a pass is written: a function, or the class of an object that is called."""
    return _written(_defined(run))


def _defined(run: Any) -> Any:
    """What somebody wrote: the function inside of what was made of it."""
    match run:
        case OwnPass(_, inner, _, _, _) | Rewrite(inner):
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
    """Lines without what all of them are indented by."""
    least = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    return "".join(x[least:] if x.strip() else "\n" for x in lines)
