"""Code of users: it can be cancelled, its errors are one sentence, and failed registrations undone.

Passes, policies, operators and plug-ins are all run and reported in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from explorer.errors import Cancelled, IronworksError
from explorer.process.cancellation import cancelling_user_code
from explorer.process.sandbox import at_line

LONGEST_MESSAGE = 300  # characters of an error of user code; chosen
LONGEST_VALUE = 200  # characters of a user's value in a sentence; chosen
Value = TypeVar("Value")


@contextmanager
def user_code(
    what: str,
    refused: Callable[[str], IronworksError],
    passing: tuple[type[BaseException], ...] = (Cancelled,),
) -> Iterator[None]:
    """Run the code of `what` in the block; any other exception than `passing` becomes an error.

    `refused` returns the error for the words that describe what was raised, and where.
    """
    try:
        with cancelling_user_code(what):
            yield
    except passing:
        raise
    except (Exception, SystemExit) as problem:  # a user's code may raise anything
        raise refused(f"{describe_error(problem)}{at_line(problem)}") from problem


def describe_error(problem: BaseException) -> str:
    """Describe an error of user code in a few words."""
    if isinstance(problem, IronworksError):
        return problem.sentence
    words, kind = " ".join(str(problem).split()), type(problem).__name__
    return f"{kind}: {_short(words, LONGEST_MESSAGE)}" if words else kind


def with_article(name: str) -> str:
    """Return the name of a type with its article; None stands for itself."""
    if name == "NoneType":
        return "None"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def a(value: object) -> str:
    """Return the type of a value with its article: "an int", "None"."""
    return with_article(type(value).__name__)


def shown(value: object) -> str:
    """Return the text of a value in a few characters, even if its repr raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's code may raise anything
        text = type(value).__name__
    return _short(text, LONGEST_VALUE)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


class Registry(dict[str, Value], Generic[Value]):
    """Registrations of users by name; `changed` is called after a rollback.

    `enters` returns True for an entry that takes part without being named in an option.
    """

    every: list[Registry[object]] = []  # noqa: RUF012  all that exist

    def __init__(
        self,
        changed: Callable[[], None] = lambda: None,
        enters: Callable[[Value], bool] = lambda entry: True,
    ) -> None:
        """Create an empty registry."""
        super().__init__()
        self.changed, self.enters = changed, enters
        Registry.every.append(self)  # type: ignore[arg-type]

    def copy(self) -> Registry[Value]:
        """Return another registry with the same entries."""
        other = Registry[Value](self.changed, self.enters)
        other.update(self)
        return other


@contextmanager
def rollback_on_error() -> Iterator[list[str]]:
    """Undo all registrations made inside the context if it raises.

    The list that it yields has afterwards the names that were registered and take part by
    themselves.
    """
    before = [(registry, dict(registry)) for registry in Registry.every]
    entered: list[str] = []
    try:
        yield entered
        for registry in Registry.every:
            earlier = next((entries for r, entries in before if r is registry), {})
            fresh = (n for n, entry in registry.items() if earlier.get(n) is not entry)
            entered += [n for n in fresh if registry.enters(registry[n])]
    except BaseException:
        for registry, entries in before:
            if registry != entries:
                registry.clear()
                registry.update(entries)
                registry.changed()
        raise
