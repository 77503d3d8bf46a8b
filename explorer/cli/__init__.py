"""`ironworks`: the command line of the compiler.

`COMMANDS` is the table of commands. Each is a function of `explorer.cli.commands`, or one that
another package offers under the entry point group `ironworks.commands`. The function takes the
arguments after its name and returns the exit code. Imports are delayed until they are needed, so
that help is printed at once. Exit codes: 0 success, 1 the answer is "no", 2 bad usage or bad input,
70 a fault of Ironworks, 130 stopped by the user.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

GROUP = "ironworks.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line of the help, and the function that runs it, as `module:function`.

    Without a function it comes with the package `widgets`, under the entry point group.
    """

    summary: str
    function: str = ""

    def load(self) -> Callable[[list[str]], int]:
        """Import the function of a command of `explorer.cli.commands`."""
        module, _, name = self.function.partition(":")
        run: Callable[[list[str]], int] = getattr(
            import_module(f"explorer.cli.commands.{module}"), name
        )
        return run


COMMANDS = {
    "check": Command("what would happen to a model, before anything does", "check:main"),
    "compile": Command(
        "every step from the file to machine code, with its seconds", "compile:main"
    ),
    "explain": Command("what a system decided, and why not otherwise", "explain:main"),
    "weld": Command(
        "which kernels share tiles, in which memory, and what if they did not", "weld:main"
    ),
    "ram": Command("how tasks lie on units under each policy, here or on a data sheet", "ram:main"),
    "time": Command("how long a run takes, in all and per operator", "time:main"),
    "gpu": Command(
        "a run on the GPU that is here, or a recording of one, beside the plan", "time:gpu_main"
    ),
    "generate": Command("a language model continues a text, word by word", "generate:main"),
    "quantize": Command(
        "weights of a few bits, the error of each layer, as an ONNX file", "quantize:main"
    ),
    "race": Command("the same model in other runtimes, answers compared first", "race:main"),
    "export": Command("a C program, for this machine or another", "export:main"),
    "sweep": Command(
        "every combination of some settings, as rows with a machine's card", "sweep:main"
    ),
    "devices": Command(
        "what hardware is known, and this machine, as measured or by default", "devices:main"
    ),
    "cache": Command("what is kept on disk: stats, clear, verify, why", "cache:main"),
    "zoo": Command("models that are here by name", "devices:zoo_main"),
    "bug-report": Command("what a report of a fault needs, and nothing private", "bug_report:main"),
    "report": Command("one offline file: every stage, its pictures, the timings"),
    "lab": Command("JupyterLab, opened on the tour"),
    "serve": Command("the explorer of a model as a web page of its own"),
}
NO, BAD, FAULT, STOPPED = 1, 2, 70, 130  # 70: EX_SOFTWARE of BSD's sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    An error is one line on stderr; with `--json` it is an object on stdout too.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _make_streams_safe()
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _report_failure(argv, Cancelled("stopped"), STOPPED)
    except BrokenPipeError:
        _discard_output()
        return NO
    except (CheckFailed, AnswerMismatch) as problem:
        return _report_failure(argv, problem, NO)
    except Cancelled as problem:
        return _report_failure(argv, problem, STOPPED)
    except OSError as problem:
        return _report_failure(argv, _system_error(problem), BAD)
    except Exception as problem:
        error = fault(problem, f"the command {argv[0]!r}")
        if isinstance(error, InternalFault):
            _store_fault(argv, error, problem)
        print(shown(traceback_of(problem)), end="", file=sys.stderr)
        return _report_failure(argv, error, FAULT if isinstance(error, InternalFault) else BAD)


def _store_fault(argv: list[str], error: InternalFault, problem: Exception) -> None:
    from explorer.cli.last_fault import store_fault

    store_fault(("ironworks", *argv), error, problem)


def _make_streams_safe() -> None:
    """Make the standard streams safe to write to.

    A character that the terminal cannot encode becomes a question mark. A closed stream is replaced
    by the null device, so that no file opened later takes its descriptor.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else BAD
    if argv[0] in ("-V", "--version"):
        print(f"ironworks {_version()}")
        return 0
    return _load_command(argv[0])(argv[1:])


def _load_command(name: str) -> Callable[[list[str]], int]:
    if name in COMMANDS and COMMANDS[name].function:
        return COMMANDS[name].load()
    from importlib.metadata import entry_points

    entries = tuple(entry_points(group=GROUP, name=name))
    if entries:
        offered: Callable[[list[str]], int] = entries[0].load()
        return offered
    raise _unknown_command(name)


def _unknown_command(name: str) -> BadOption:
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


def _report_failure(argv: list[str], problem: IronworksError, code: int) -> int:
    command = argv[0] if argv and argv[0] in COMMANDS else ""
    head = " ".join(("ironworks", command)).strip()
    try:
        print(shown(f"{head}: {problem}"), file=sys.stderr)
        if "--json" in argv:
            print(json.dumps(problem.fields()))
        sys.stdout.flush()
    except OSError:
        _discard_output()
    return code


def _discard_output() -> None:
    """Discard further output: its reader has gone or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_error(problem: OSError) -> IronworksError:
    """Return an error of one sentence for a refusal by the operating system."""
    name, reason = problem.filename, problem.strerror or str(problem)
    return IronworksError(f"{name}: {reason}" if name else reason, where=name or "")


def _help() -> str:
    lines = [f"  {name:10} {command.summary}" for name, command in COMMANDS.items()]
    lines += [f"  {name:10} (a plug-in)" for name in _plugin_commands() if name not in COMMANDS]
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


def _plugin_commands() -> tuple[str, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ironworks")
    except PackageNotFoundError:
        return "(not installed)"
