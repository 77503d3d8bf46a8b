"""Registry of passes by name, with the paper that each comes from.

Scripts, links and `--set` may hold former names of the pipeline's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any, TypeVar

from explorer.errors import BadOption
from explorer.process.sandbox import Limits
from explorer.process.user_code import Registry

Registered = TypeVar("Registered", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A registered pass: a function of a program, or a frozen dataclass whose instances are.

    A pass that names the step it comes `after` enters every pipeline; the others are those of the
    default pipeline. `limits` bound it in the helper process that runs it first.
    """

    name: str
    run: Callable[..., Any]
    paper: str = ""
    after: str = ""
    limits: Limits = Limits()

    @property
    def promise(self) -> str:
        """The first line of the pass's docstring."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


Passes = tuple[
    tuple[str, Callable[[Any], Any]], ...
]  # ((step that the pass comes after, pass), ...)
LONGEST_NAME_CHARACTERS = 80  # chosen
_passes = Registry[PassRecord](enters=lambda record: bool(record.after))


def compiler_pass(
    name: str, paper: str = "", after: str = "", *, seconds: float = 20.0, mib: int = 2048
) -> Callable[[Registered], Registered]:
    """Register a pass; a later one of the same name replaces it, as when a notebook cell is rerun.

    With `after`, the name of a step, the pass enters every pipeline that is run from now on. A
    helper process runs it first, limited to `seconds` of computing and `mib` of memory.

    Raises:
        BadOption: the name is invalid, or a pass that enters pipelines cannot be called with a
            program.
    """
    _check_name(name)
    if not isinstance(after, str):
        raise BadOption(f"`after` names a step, and is {after!r}", where=name, actual=after)
    limits = Limits(
        _check_positive(name, "seconds", seconds), int(_check_positive(name, "mib", mib))
    )

    def register(run: Registered) -> Registered:
        if after:
            as_callable(run, name)
        _passes[name] = PassRecord(name, run, paper, current_name(after), limits)
        return run

    return register


def _check_positive(name: str, what: str, number: object) -> float:
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
            actual=str(name)[:LONGEST_NAME_CHARACTERS],
        )


def as_callable(run: Any, name: str = "") -> Callable[[Any], Any]:
    """Return a pass as a callable; a class of passes stands for its instance with defaults.

    Raises:
        BadOption: it cannot be called with one program.
    """
    name = name or name_of(run)
    instance = run
    try:
        instance = run() if isinstance(run, type) else run
        signature(instance).bind(None)
    except ValueError:  # a builtin may have no signature
        pass
    except (TypeError, BadOption) as problem:
        raise BadOption(
            f"the pass {name!r} cannot be called with a program: {problem}",
            where=name,
            expected="a function of one program, or a dataclass of options with such a __call__",
            actual=str(type(run).__name__),
        ) from problem
    if not callable(instance):
        raise BadOption(f"the pass {name!r} cannot be called", where=name)
    run_pass: Callable[[Any], Any] = instance
    return run_pass


def name_of(run: object) -> str:
    """Return the registered name of a pass, or its own name."""
    for record in _passes.values():
        if record.run in (run, type(run)):
            return record.name
    return str(getattr(run, "__name__", type(run).__name__))


def forget_pass(name: str) -> None:
    """Remove a user-defined pass from all pipelines that are run from now on.

    Raises:
        BadOption: there is no such user-defined pass.
    """
    if not find_pass(name).after:
        raise BadOption(
            f"the pass {name!r} belongs to the default pipeline",
            where=name,
            expected=_user_pass_names(),
        )
    del _passes[name]


def _user_pass_names() -> str:
    return ", ".join(sorted(name for name, r in _passes.items() if r.after)) or "none of your own"


def passes() -> Mapping[str, PassRecord]:
    """Return all registered passes by name."""
    return MappingProxyType(_passes)


def find_pass(name: str) -> PassRecord:
    """Return the pass of that name.

    Raises:
        BadOption: there is none; the error lists the registered names.
    """
    if name not in _passes:
        raise BadOption(
            f"no pass is named {name!r}", where=name, expected=", ".join(sorted(_passes))
        )
    return _passes[name]


CURRENT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "deduce shapes": "infer shapes",
        "count loops": "find trip counts",
        "share products": "merge matrix products",
        "split loops over layers": "split multi-layer recurrences",
        "multiply rows ahead": "hoist input projections",
        "share equal expressions": "eliminate common subexpressions",
        "fold scales into weights": "fold batch norm",
        "keep integer weights": "keep weights quantized",
        "keep products narrow": "use 16-bit matrix units",
        "fold copies into kernels": "fold layout copies",
        "fold copies of layouts": "fold channels-last copies",
        "write joins in place": "concatenate in place",
        "share long folds": "split and share reductions",
        "compute both sides": "if-convert branches",
        "grind control flow": "map control flow (Grinder)",
        "weld": "fuse (Welder)",
        "join results": "merge sibling kernels",
        "walk softmax in blocks": "online softmax",
        "choose convolutions": "select convolution algorithms",
        "roll": "tile (Roller)",
        "ram": "schedule (Rammer)",
        "choose ways of control flow": "select control-flow schedules",
        "measure ways": "measure control-flow schedules",
    }
)


def current_name(step: str) -> str:
    """Return the name that a step has today, or the argument if it was never renamed."""
    return CURRENT_NAMES.get(step, step)
