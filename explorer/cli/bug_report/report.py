"""The report itself: versions, this machine, options, the step and the traceback."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed
from explorer.cli.bug_report.last_fault import Trouble, last, trouble
from explorer.cli.bug_report.private import environment, without_paths
from explorer.cli.compiled import compiled, loaded, options
from explorer.devices.model import Device
from explorer.errors import InternalFault, fault
from explorer.measure.machine import machine
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.plain_text import size

NONE = "no fault is kept: give the MODEL that was compiled, and it is compiled again"
FINE = "it compiles without a fault"
REFUSED = "(an error in what was given, by its own word, not a fault of Ironworks)"


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report: of the last fault, or of compiling a model with its options."""

    trouble: Trouble
    versions: dict[str, str]
    machine: str
    device: str
    options: dict[str, str]
    environment: dict[str, str]

    @property
    def text(self) -> str:
        """The report as people read it."""
        said = self.trouble
        parts = {
            "command": said.command,
            "what": said.sentence,
            "step": said.step,
            "versions": _lines(self.versions),
            "machine": f"{self.machine}\n{self.device}",
            "options": _lines(self.options),
            "environment": _lines(self.environment),
            "traceback": said.traceback.rstrip(),
        }
        told = (f"{name}\n{_indented(part)}" for name, part in parts.items() if part)
        return "\n\n".join(("Ironworks bug report", *told))


def command(given: Sequence[str]) -> int:
    """Print the report, or write it."""
    parser = Parser(
        "bug-report",
        "What a report of a fault needs: versions, this machine, the options, the step and the "
        "traceback of the last fault, or of compiling MODEL. Without your paths and environment.",
    )
    model_flags(parser, optional=True)
    parser.set_defaults(bind=[])  # nothing is run
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there (default: print it)")
    flags = parsed(parser, given)
    found = report(flags, ("ironworks", "bug-report", *given))
    if flags.output is None:
        return tell(Answer(asdict(found), found.text), flags.json)
    Path(flags.output).write_text(f"{found.text}\n", encoding="utf-8")
    return tell(Answer(asdict(found), f"written to {flags.output}"), flags.json)


def report(flags: Namespace, words: Sequence[str]) -> Report:
    """The last fault, or what compiling the model comes to; an OSError is that the model cannot be
    read.
    """
    chosen, told = options(flags), dict[str, str]()
    if flags.model is None:
        found = last() or Trouble("", NONE, "", "")
    else:
        found = _compiling(flags, words)
        named = ((f.name, repr(getattr(chosen, f.name))) for f in fields(chosen))
        told = {n: without_paths(v) for n, v in (("target", flags.target), *named)}
    here = machine()
    return Report(
        found,
        dict(here.versions),
        f"{here.line}; {here.lanes} float32 lanes; {here.system}",
        _device(this_cpu()),
        told,
        environment(os.environ),
    )


def _compiling(flags: Namespace, words: Sequence[str]) -> Trouble:
    try:
        compiled(loaded(flags), flags, options(flags))
    except OSError:
        raise
    except Exception as problem:  # what it is about
        found = fault(problem, "compiling the model")
        told = trouble([shlex.quote(w) for w in words], found, problem)
        if isinstance(found, InternalFault):
            return told
        return Trouble(told.command, f"{told.sentence} {REFUSED}", told.step, told.traceback)
    return Trouble(without_paths(" ".join(words)), FINE, "", "")


def _device(d: Device) -> str:
    levels = (
        f"{m.name} {size(m.capacity_bytes)}" for m in d.levels if m.capacity_bytes is not None
    )
    facts = f"{d.units} units, {d.lanes} lanes, {d.clock_ghz:.2f} GHz, {', '.join(levels)}"
    return f"{d.name} ({d.figures}): {facts}" if d.figures else f"{d.name}: {facts}"


def _lines(named: dict[str, str]) -> str:
    return "\n".join(f"{name} {value}" for name, value in named.items())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
