"""The bug report: versions, this machine, options, the step and the traceback."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from explorer.cli.arguments import Parser, model_flags, parse_flags
from explorer.cli.compile_model import compile_model, load_model, options
from explorer.cli.last_fault import (
    FaultRecord,
    environment,
    fault_record,
    load_last_fault,
    without_paths,
)
from explorer.cli.terminal import print_answer
from explorer.devices.model import Device
from explorer.errors import InternalFault, fault
from explorer.measure.machine import machine
from explorer.measure.this_cpu import this_cpu
from explorer.plain_text import size
from explorer.views.answer import Answer

NONE = "no fault is stored: give the MODEL that was compiled, and it is compiled again"
FINE = "it compiles without a fault"
REFUSED = "(reported as an error in the input, not a fault of Ironworks)"


@dataclass(frozen=True, slots=True)
class Report:
    """A bug report of the last fault, or of compiling a model with its options."""

    trouble: FaultRecord
    versions: dict[str, str]
    machine: str
    device: str
    options: dict[str, str]
    environment: dict[str, str]

    @property
    def text(self) -> str:
        """The report as text for people."""
        record = self.trouble
        parts = {
            "command": record.command,
            "what": record.sentence,
            "step": record.step,
            "versions": _lines(self.versions),
            "machine": f"{self.machine}\n{self.device}",
            "options": _lines(self.options),
            "environment": _lines(self.environment),
            "traceback": record.traceback.rstrip(),
        }
        sections = (f"{name}\n{_indented(part)}" for name, part in parts.items() if part)
        return "\n\n".join(("Ironworks bug report", *sections))


def main(argv: Sequence[str]) -> int:
    """Print the report or write it to a file."""
    parser = Parser(
        "bug-report",
        "What a report of a fault needs: versions, this machine, the options, the step and the "
        "traceback of the last fault, or of compiling MODEL. Without your paths and environment.",
    )
    model_flags(parser, optional=True)
    parser.set_defaults(bind=[])  # nothing is run
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there (default: print it)")
    flags = parse_flags(parser, argv)
    document = report(flags, ("ironworks", "bug-report", *argv))
    if flags.output is None:
        return print_answer(Answer(asdict(document), document.text), flags.json)
    Path(flags.output).write_text(f"{document.text}\n", encoding="utf-8")
    return print_answer(Answer(asdict(document), f"written to {flags.output}"), flags.json)


def report(flags: Namespace, words: Sequence[str]) -> Report:
    """Return a report of the last fault, or of compiling the model if one is named.

    Raises:
        OSError: the model cannot be read.
    """
    chosen, settings = options(flags), dict[str, str]()
    if flags.model is None:
        record = load_last_fault() or FaultRecord("", NONE, "", "")
    else:
        record = _compile_for_report(flags, words)
        named = ((f.name, repr(getattr(chosen, f.name))) for f in fields(chosen))
        settings = {n: without_paths(v) for n, v in (("target", flags.target), *named)}
    here = machine()
    return Report(
        record,
        dict(here.versions),
        f"{here.line}; {here.lanes} float32 lanes; {here.system}",
        _device(this_cpu()),
        settings,
        environment(os.environ),
    )


def _compile_for_report(flags: Namespace, words: Sequence[str]) -> FaultRecord:
    try:
        compile_model(load_model(flags), flags, options(flags))
    except OSError:
        raise
    except Exception as problem:  # the report describes it
        error = fault(problem, "compiling the model")
        record = fault_record([shlex.quote(w) for w in words], error, problem)
        if isinstance(error, InternalFault):
            return record
        return FaultRecord(
            record.command, f"{record.sentence} {REFUSED}", record.step, record.traceback
        )
    return FaultRecord(without_paths(" ".join(words)), FINE, "", "")


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
