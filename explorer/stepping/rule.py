"""Source of a rewrite rule: its file, its line, its text and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from explorer.passes.pipeline.user_pass import UserPass
from explorer.passes.simplify.rewrite_rule import Rewrite

ROOT = Path(__file__).parents[2]


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
