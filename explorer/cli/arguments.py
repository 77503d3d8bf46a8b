"""Flags of the commands, and parsers that check each value before any work begins."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from explorer.errors import BadOption

__all__ = [
    "Parser",
    "bind",
    "bounds",
    "bounds_flag",
    "connection",
    "model_flags",
    "names",
    "plugin_flag",
    "run_flags",
    "seconds",
    "stage",
    "threads",
]

Value = TypeVar("Value")
MOST_THREADS = 1024
MOST_SECONDS = 3600.0
Bounds = dict[str, tuple[int, int]]


class Parser(argparse.ArgumentParser):
    """The flags of one command, `--json` among them; a usage error is a `BadOption`."""

    def __init__(self, command: str, description: str) -> None:
        """Create the parser of `ironworks COMMAND`."""
        super().__init__(prog=f"ironworks {command}", description=description, allow_abbrev=False)
        self.add_argument("--json", action="store_true", help="print one JSON object")

    def error(self, message: str) -> NoReturn:
        """Raise a usage error as one sentence; argparse would print several lines and exit."""
        raise BadOption(message, try_=f"{self.prog} --help")

    def format_help(self) -> str:
        """Return the help text, with the user's own passes, their options and the plug-ins."""
        return super().format_help() + "".join(f"\n{line}" for line in _plugin_help()) + "\n"


def _plugin_help() -> Iterator[str]:
    """Yield help lines for registered passes, their options and the installed plug-ins."""
    from explorer import extend
    from explorer.extend import passes

    own = tuple(passes.typed_passes(passes.with_registered(())))
    if own:
        yield "passes of your own:"
    for after, run in own:
        yield f"  {run.name}, after {after!r}: {run.promise or 'no word on what it does'}"
        yield from (f"    --set {name}={value}" for name, value in passes.settings(run))
    if installed := extend.names():
        yield f"plug-ins: {', '.join(installed)}"


def model_flags(parser: Parser, *, optional: bool = False) -> None:
    """Add the flags of the model and of how it is compiled."""
    add = parser.add_argument
    nargs = "?" if optional else None
    add("model", metavar="MODEL", nargs=nargs, help="an ONNX file, or zoo:NAME")
    add(
        "--target",
        default="cpu",
        metavar="T",
        help="a device of `ironworks devices`, or a data sheet: ./my_gpu.toml (default: cpu)",
    )
    bounds_flag(parser)
    settings_flag(parser)
    plugin_flag(parser)


def settings_flag(parser: Parser) -> None:
    """Add the flag that sets options."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="roller.top_k=10",
        dest="settings",
        help="one option of one system, or of a pass of your own by its name; may be repeated",
    )


class _LoadPlugin(argparse.Action):
    """An action that loads a plug-in when its flag is parsed.

    A `--help` after the flag then lists what the plug-in brings.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        from explorer import extend

        loaded = extend.load(str(values))
        if not extend.enters(loaded):
            raise BadOption(
                f"--plugin {values}: it registers nothing that takes part by itself",
                where="--plugin",
                expected='a pass under @explorer.compiler_pass("name", after=STEP), an operator, a '
                "policy, a target or a picture",
                actual=str(values),
                try_=f"--set rammer.policy={values}, if it is a policy; --target {values}, if it "
                "is a device",
            )
        namespace.plugins = (*(namespace.plugins or ()), str(values))


def plugin_flag(parser: Parser) -> None:
    """Add `--plugin`, whose file or package is loaded first."""
    parser.add_argument(
        "--plugin",
        action=_LoadPlugin,
        dest="plugins",
        metavar="P",
        help="passes, operators, policies, targets and pictures of your own: an installed plug-in, "
        "or a file of Python (./mine.py); may be repeated",
    )


def bounds_flag(parser: Parser) -> None:
    """Add `--bounds`, the bounds of symbolic dims."""
    parser.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="batch=1:64",
        help="least and greatest value of symbolic dims",
    )


def run_flags(parser: Parser) -> None:
    """Add the flags of a run: sizes, threads and inputs."""
    add = parser.add_argument
    add(
        "--bind",
        action="append",
        default=[],
        metavar="batch=1,seq=128",
        help="values of symbolic dims",
    )
    add("--threads", type=threads, metavar="N", help="cores to run on (default: all)")
    add("--inputs", metavar="FILE.npz", help="the inputs by name (default: random ones)")


def bind(texts: Iterable[str]) -> dict[str, int]:
    """Parse `batch=1,seq=128`, given once or more often, into values by symbol."""
    return _parse_pairs("--bind", "batch=1,seq=128", texts, _parse_size)


def bounds(texts: Iterable[str]) -> Bounds:
    """Parse `batch=1:64`, given once or more often, into (least, greatest) by symbol."""
    return _parse_pairs("--bounds", "batch=1:64", texts, _parse_range)


def _parse_pairs(
    flag: str, example: str, texts: Iterable[str], read: Callable[[str, str], Value]
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise BadOption(
                f"{flag} takes pairs like {example}, not {part!r}",
                where=flag,
                expected=example,
                actual=part,
            )
        if name in values:
            raise BadOption(f"{flag} names {name!r} twice", where=flag, actual=part)
        values[name] = read(f"{flag} {name}", value)
    return values


def _parse_size(where: str, text: str) -> int:
    value = _parse_integer(where, text)
    if not 0 <= value < 2**31:
        raise BadOption(
            f"{where} is {value}, which no dim can be",
            where=where,
            expected="0 or more",
            actual=text,
        )
    return value


def _parse_range(where: str, text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    if not colon:
        raise BadOption(
            f"{where} takes a least and a greatest value like 1:64, not {text!r}",
            where=where,
            expected="LOW:HIGH",
            actual=text,
        )
    least, most = _parse_size(where, low), _parse_size(where, high)
    if least > most:
        raise BadOption(
            f"{where}: the least value {least} is above the greatest, {most}",
            where=where,
            actual=text,
        )
    return least, most


def _parse_integer(where: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadOption(
            f"{where} takes a whole number, not {text!r}", where=where, actual=text
        ) from None


def threads(text: str) -> int:
    """Parse a number of workers."""
    value = _parse_integer("--threads", text)
    if not 1 <= value <= MOST_THREADS:
        raise BadOption(
            f"--threads takes 1 to {MOST_THREADS}, not {value}", where="--threads", actual=text
        )
    return value


def seconds(text: str) -> float:
    """Parse a time in seconds: above zero and finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST_SECONDS:  # false for NaN too
        raise BadOption(
            f"--seconds takes a number above 0 and up to {MOST_SECONDS:.0f}, not {text!r}",
            where="--seconds",
            actual=text,
        )
    return value


def stage(text: str) -> str:
    """Parse the name of a stage and return it in capitals, as the compiler spells it."""
    from explorer.ir.stage import Stage

    stages = [each.name.lower() for each in Stage]
    if text.lower() not in stages:
        raise BadOption(
            f"there is no stage {text!r}; the stages are {', '.join(stages)}",
            where="stage",
            expected=", ".join(stages),
            actual=text,
        )
    return text.upper()


def connection(text: str) -> tuple[str, str]:
    """Parse `h_12=L1` into a value and a memory level; the value may hold an equals sign."""
    value, equals, level = (part.strip() for part in text.rpartition("="))
    if not (equals and value and level):
        raise BadOption(
            f"--connect takes a value and a level like h_12=L1, not {text!r}",
            where="--connect",
            expected="VALUE=LEVEL",
            actual=text,
        )
    return value, level


def names(text: str) -> tuple[str, ...]:
    """Parse `a,b,c` into names without duplicates."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(
            f"expected names with commas between, none twice, not {text!r}"
        )
    return parts


def parse_flags(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command; `--help` prints and ends the process with 0."""
    return parser.parse_args(list(argv))
