"""`ironworks`: the compiler from a shell.

Each command is a file of `commands`, or a function that another package offers under the entry
point group `ironworks.commands`: it takes the arguments that follow its name and returns the exit
code. Nothing is imported before it is needed, so that help comes at once. Exit codes: 0 it went
well, 1 the answer is "no", 2 bad usage or bad input, 130 stopped by the user.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper

from explorer.errors import (
    AnswerMismatch,
    BadOption,
    Cancelled,
    CheckFailed,
    InternalFault,
    IronworksError,
    did_you_mean,
    fault,
    traceback_of,
)
from explorer.plain_text import shown

__all__ = ["COMMANDS", "GROUP", "main"]

GROUP = "ironworks.commands"
COMMANDS = {
    "check": "what would happen to a model, before anything does",
    "compile": "every step from the file to machine code, with its seconds",
    "explain": "what a system decided, and why not otherwise",
    "weld": "which kernels share tiles, in which memory, and what if they did not",
    "ram": "how tasks lie on units under each policy, here or on a data sheet",
    "time": "how long a run takes, in all and per operator",
    "gpu": "a run on the GPU that is here, or a recording of one, beside the plan",
    "race": "the same model in other runtimes, answers compared first",
    "sweep": "every combination of some settings, as rows with a machine's card",
    "devices": "what hardware is known, and this machine, as measured or by default",
    "cache": "what is kept on disk: stats, clear, verify, why",
    "zoo": "models that are here by name",
    "bug-report": "what a report of a fault needs, and nothing private",
    "report": "one offline file: every stage, its pictures, the timings",
    "lab": "JupyterLab, opened on the tour",
    "serve": "the explorer of a model as a web page of its own",
}
OURS = frozenset(COMMANDS) - {"report", "lab", "serve"}
NO, BAD, FAULT, STOPPED = 1, 2, 70, 130  # 70: EX_SOFTWARE of BSD's sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what goes wrong is one line on stderr, with `--json` an object on stdout."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _tolerate()
        code = _dispatch(given)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _failed(given, Cancelled("stopped"), STOPPED)
    except BrokenPipeError:
        _give_up_writing()
        return NO
    except (CheckFailed, AnswerMismatch) as problem:
        return _failed(given, problem, NO)
    except Cancelled as problem:
        return _failed(given, problem, STOPPED)
    except OSError as problem:
        return _failed(given, _unreadable(problem), BAD)
    except Exception as problem:
        found = fault(problem, f"the command {given[0]!r}")
        if isinstance(found, InternalFault):
            _keep(given, found, problem)
        print(shown(traceback_of(problem)), end="", file=sys.stderr)
        return _failed(given, found, FAULT if isinstance(found, InternalFault) else BAD)


def _keep(given: list[str], found: InternalFault, problem: Exception) -> None:
    from explorer.cli.bug_report.last_fault import keep

    keep(("ironworks", *given), found, problem)


def _tolerate() -> None:
    """What a terminal cannot write becomes a question mark, not an error; a stream that is closed
    is one that nobody reads, and no file of ours takes its number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        print(_help(), file=sys.stdout if given else sys.stderr)
        return 0 if given else BAD
    if given[0] in ("-V", "--version"):
        print(f"ironworks {_version()}")
        return 0
    return _command(given[0])(given[1:])


def _command(name: str) -> Callable[[list[str]], int]:
    if name in OURS:
        run: Callable[[list[str]], int] = import_module(
            f"explorer.cli.commands.{name.replace('-', '_')}"
        ).main
        return run
    from importlib.metadata import entry_points

    found = tuple(entry_points(group=GROUP, name=name))
    if found:
        offered: Callable[[list[str]], int] = found[0].load()
        return offered
    raise _unknown(name)


def _unknown(name: str) -> BadOption:
    if name in COMMANDS:
        return BadOption(
            f"the command {name!r} comes with the package `widgets`, which is not installed",
            where=name,
            try_="install the whole distribution `ironworks`",
        )
    near = did_you_mean(name, COMMANDS)
    return BadOption(
        f"there is no command {name!r}{near or '; `ironworks --help` lists what there is'}",
        where=name,
        expected="" if near else ", ".join(COMMANDS),
    )


def _failed(given: list[str], problem: IronworksError, code: int) -> int:
    command = given[0] if given and given[0] in COMMANDS else ""
    head = " ".join(("ironworks", command)).strip()
    try:
        print(shown(f"{head}: {problem}"), file=sys.stderr)
        if "--json" in given:
            print(json.dumps(problem.fields()))
        sys.stdout.flush()
    except OSError:
        _give_up_writing()
    return code


def _give_up_writing() -> None:
    """The reader of our output has gone, or its disk is full: the rest goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unreadable(problem: OSError) -> IronworksError:
    """One sentence for what the system refused."""
    name, reason = problem.filename, problem.strerror or str(problem)
    return IronworksError(f"{name}: {reason}" if name else reason, where=name or "")


def _help() -> str:
    lines = [f"  {name:10} {what}" for name, what in COMMANDS.items()]
    lines += [f"  {name:10} (a plug-in)" for name in _offered() if name not in COMMANDS]
    return "\n".join(
        (
            "usage: ironworks COMMAND [...]",
            "",
            "A deep-learning compiler that you can watch working.",
            "A MODEL is an ONNX file, or zoo:NAME.",
            "",
            *lines,
            "",
            "Every command takes --json and --help. Exit codes: 0 it went well, 1 the answer is",
            "no, 2 bad usage or bad input, 70 a fault of Ironworks, 130 stopped.",
        )
    )


def _offered() -> tuple[str, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ironworks")
    except PackageNotFoundError:
        return "(not installed)"
