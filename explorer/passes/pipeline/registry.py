"""Passes by name: what a notebook, the command line and a picture call them, and the paper that
each comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any, TypeVar

from explorer.errors import BadOption
from explorer.sandbox.helper import Limits

Registered = TypeVar("Registered", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass under its name: a function of a program, or a frozen dataclass whose instances are.
    One that names the step it comes `after` enters every pipeline; the others are those of the
    default pipeline. `limits`: what it may take in the helper process that tries it first.
    """

    name: str
    run: Callable[..., Any]
    paper: str = ""
    after: str = ""
    limits: Limits = Limits()

    @property
    def promise(self) -> str:
        """The first line of what the pass says of itself."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


Passes = tuple[tuple[str, Callable[[Any], Any]], ...]  # ((the step that it comes after, it), ...)
LONGEST_NAME_CHARACTERS = 80  # chosen
_passes: dict[str, PassRecord] = {}


def compiler_pass(
    name: str, paper: str = "", after: str = "", *, seconds: float = 20.0, mib: int = 2048
) -> Callable[[Registered], Registered]:
    """Register a pass; a later one of the same name takes its place, as when a notebook cell is run
    again. With `after`, the name of a step, it enters every pipeline that is run from now on.

    It is tried in a helper process, where it may compute so many `seconds` and take so many `mib`
    of memory, before it runs in this one. Raises BadOption where the name is none, and where a
    pass that enters could not be called.
    """
    _check_name(name)
    if not isinstance(after, str):
        raise BadOption(f"`after` names a step, and is {after!r}", where=name, found=after)
    limits = Limits(_positive(name, "seconds", seconds), int(_positive(name, "mib", mib)))

    def register(run: Registered) -> Registered:
        if after:
            called(run, name)
        _passes[name] = PassRecord(name, run, paper, after, limits)
        return run

    return register


def _positive(name: str, what: str, number: object) -> float:
    if isinstance(number, int | float) and 0 < number < float("inf"):
        return number
    raise BadOption(f"the {what} of a pass are a number above 0, not {number!r}", where=name)


def _check_name(name: object) -> None:
    fits = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME_CHARACTERS and name.isprintable()
    if not (fits and isinstance(name, str) and not set(name) & set(".=") and name == name.strip()):
        raise BadOption(
            "a pass needs a name: a few printable characters without '.' and '='",
            where="compiler_pass",
            expected='@explorer.compiler_pass("my pass", after="legalise to kernels")',
            found=str(name)[:LONGEST_NAME_CHARACTERS],
        )


def called(run: Any, name: str = "") -> Callable[[Any], Any]:
    """A pass as it is called: a class of passes stands for the one with its defaults.

    Raises BadOption where it cannot be called with one program.
    """
    name = name or name_of(run)
    made = run
    try:
        made = run() if isinstance(run, type) else run
        signature(made).bind(None)
    except ValueError:  # a builtin tells no signature
        pass
    except (TypeError, BadOption) as problem:
        raise BadOption(
            f"the pass {name!r} cannot be called with a program: {problem}",
            where=name,
            expected="a function of one program, or a dataclass of options with such a __call__",
            found=str(type(run).__name__),
        ) from problem
    if not callable(made):
        raise BadOption(f"the pass {name!r} cannot be called", where=name)
    found: Callable[[Any], Any] = made
    return found


def name_of(run: object) -> str:
    """What a pass is registered as, or called."""
    for record in _passes.values():
        if record.run in (run, type(run)):
            return record.name
    return str(getattr(run, "__name__", type(run).__name__))


def forget_pass(name: str) -> None:
    """No pipeline that is run from now on has the pass of that name; BadOption where there is no
    pass of one's own with it.
    """
    if not find_pass(name).after:
        raise BadOption(
            f"the pass {name!r} belongs to the default pipeline", where=name, expected=_entering()
        )
    del _passes[name]


def _entering() -> str:
    return ", ".join(sorted(name for name, r in _passes.items() if r.after)) or "none of your own"


@contextmanager
def restored() -> Iterator[None]:
    """What is registered inside stays, unless something is raised there."""
    known = dict(_passes)
    try:
        yield
    except BaseException:
        _passes.clear()
        _passes.update(known)
        raise


def passes() -> Mapping[str, PassRecord]:
    """All passes that were registered so far, by name."""
    return MappingProxyType(_passes)


def find_pass(name: str) -> PassRecord:
    """The pass of that name; BadOption names the known ones."""
    if name not in _passes:
        raise BadOption(
            f"no pass is named {name!r}", where=name, expected=", ".join(sorted(_passes))
        )
    return _passes[name]
