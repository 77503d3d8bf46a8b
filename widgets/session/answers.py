"""Read-only questions: a step's program, a kernel's text, an operator, a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.process.garbage import rare_collections
from explorer.runtime.planning.schedule_times import TimedSchedule
from widgets.draw import plots
from widgets.model import house as house_parts
from widgets.model import settings as controls_of
from widgets.model.house import House, table_part
from widgets.model.knobs import Setting, fusion
from widgets.model.picture import ManualMoves, OnShow, Picture, Times, View, Walls, controls
from widgets.program import matches_picture, program_diff, switchboard
from widgets.program.generated_source import LANGUAGES, PTX_COMMENT, SourceRows, line_origins
from widgets.program.generated_source import data as source_data
from widgets.program.instructions import explain_instructions
from widgets.program.linked_lines import declaration_groups
from widgets.program.program_diff import DiffLine
from widgets.rooms import gallery, inspection
from widgets.session.questions import check_question, item, position
from widgets.session.shown import Binary

MOST_PIXELS = 4096  # of a drawing's sides


def program(s: OnShow, step: int) -> Any:
    """Return the lines of the program after a step, and the lines that it removed."""
    snapshot = item(s.now.compiled.snapshots, step, "step")
    both = snapshot.before, snapshot.after
    with rare_collections():
        rows = s.house.cached(f"lines {step}", (), lambda: _rows(s, program_diff.data(*both)))
    failed = snapshot.checked if isinstance(snapshot.checked, str) else ""
    return {"lines": rows, "failed": failed}


def versus(s: OnShow) -> Any:
    """Return the lines of the program on show, and the lines of A's program that it lacks."""
    lines = program_diff.data(s.pinned.compiled.program, s.now.compiled.program)
    return {"lines": _rows(s, lines), "failed": ""}


def graph(s: OnShow, view: str, opened: str = "") -> Any:
    """Return a graph with its repeated layers folded, except the `opened` ones.

    `opened` holds keys separated by commas; "flat" means without layers.
    """
    if view not in house_parts.VIEWS:
        views = ", ".join(house_parts.VIEWS)
        raise BadOption(f"there is no graph {str(view)[:40]!r}", expected=views)
    with rare_collections():
        if opened == "flat":
            return house_parts.flat_graph(s.house, view)
        return house_parts.folded_graph(s.house, view, [k for k in str(opened).split(",") if k])


def step_graph(s: OnShow, step: int) -> Any:
    """Return the graph of the program after a step, with the same node positions in every step."""
    item(s.now.compiled.snapshots, step, "step")
    return s.house.cached(f"graph {step}", (), lambda: house_parts.step_part(s.house, step))


def board(s: OnShow) -> Any:
    """Return the switchboard: every step with its knobs, and both pipelines in numbers."""
    pipeline = switchboard.data(s.now.compiled, s.pinned.compiled)
    at = {x.name: n for n, x in enumerate(s.now.compiled.snapshots)}
    weld = fusion(s.now, s.pinned)
    off = weld.labels.index("off")
    as_a = (
        weld.pinned
        if weld.pinned not in (None, off)
        else next(n for n in range(len(weld.labels)) if n != off)
    )
    steps = []
    for row in pipeline.steps:
        ends = (off, as_a) if row.knob == weld.name else (0, 1)
        steps.append({**asdict(row), "at": at.get(row.name, -1), "off": ends[0], "back": ends[1]})
    return {"steps": steps, "numbers": [list(n) for n in pipeline.numbers]}


def settings(s: OnShow, room: str) -> Any:
    """Return the controls of a room: of every option, or of every figure of the device."""
    now, a = s.now.compiled, s.pinned.compiled
    control_makers = {"options": controls_of.options, "hardware": controls_of.figures}
    if room not in control_makers:
        raise BadOption(
            f"there are no settings in {str(room)[:40]!r}", expected=", ".join(control_makers)
        )
    return {
        "controls": [asdict(c) for c in control_makers[room](now, a)],
        "device": now.device.name,
    }


def matches(s: OnShow, step: int) -> Any:
    """Return the rules of a step and their matches: each with its rule, title and subject."""
    item(s.now.compiled.snapshots, step, "step")
    step_matches = matches_picture.matches_of_step(s, step)
    return {
        "rules": [[r.name, r.place, r.line, r.says, r.source] for r in step_matches.rules],
        "matches": [
            [r.rule, r.title, r.about, s.house.positions(r.ops)] for r in step_matches.rows
        ],
        "told": all(r.match.traced for r in step_matches.rows),
    }


def match(s: OnShow, step: int, number: int) -> Any:
    """Return the part of the program that a match is about, before and after."""
    item(s.now.compiled.snapshots, step, "step")
    row = item(matches_picture.matches_of_step(s, step).rows, number, "match")
    return {"lines": _rows(s, row.lines)}


def imported(s: OnShow) -> Any:
    """Return the lines of the program as it was imported."""
    steps = s.now.compiled.snapshots
    program = steps[0].before if steps else s.now.compiled.program
    return {"lines": _rows(s, program_diff.data(program, program)), "failed": ""}


def _rows(s: OnShow, lines: Sequence[DiffLine]) -> list[Any]:
    return [
        [
            r.mark,
            r.number,
            _line_with_label(s, r),
            r.family,
            s.house.positions(r.ops),
            r.mate,
            r.words,
        ]
        for r in lines
    ]


def _line_with_label(s: OnShow, line: DiffLine) -> str:
    """Return a line; a call's line ends with the name that other views use for it."""
    name = s.house.heaviest(line.ops) if line.family and not line.text.startswith("    ") else ""
    is_missing = name and f" {line.text} ".find(f" {name} ") < 0
    return (
        f"{line.text}{', ' if '  # ' in line.text else '  # '}{name}" if is_missing else line.text
    )


def kernel(s: OnShow, call: int, language: str = "numba") -> Any:
    """Return the lines of one call's kernel.

    `from` holds the source line of each line, 0 for none; `ops` the operators of each source line;
    both only if they are known. `together` lists source lines that belong together, `note` says how
    reliable the mapping of lines is, and `help` explains the instructions of assembly.
    """
    name = item(s.house.calls, call, "call").name
    shown = s.now.compiled
    code = next((k for k in (*shown.kernels, *shown.blocks) if k.name == name), None)
    if code is None and shown.program.stage is Stage.PLANNED and target_of(shown.device).is_emitted:
        why = (
            "it is generated when this is measured"
            if s.runs
            else f"{shown.device.name} is not here"
        )
        raise BadOption(f"{name} has no code yet: {why}")
    if code is None:
        raise BadOption(f"{name} is not a kernel: it runs as control flow or in a library")
    if language not in LANGUAGES:
        raise BadOption(f"there is no language {language[:20]!r}")
    rows = source_data(code, language)
    return {
        "name": rows.kernel,
        "lines": rows.lines,
        "all": s.house.positions(rows.ops),
        "family": s.house.calls[call].family,
        "from": rows.sources or None,
        "ops": _line_ops(s, name, code.source) if rows.sources else None,
        "together": declaration_groups(code.source),
        "help": explain_instructions(rows.lines) if _has_instructions(rows) else {},
        "note": "" if language == "numba" else code.listings.note,
    }


def _has_instructions(rows: SourceRows) -> bool:
    """Return True for assembly, or for PTX in place of LLVM IR."""
    return rows.language == "assembly" or rows.lines[0].startswith(PTX_COMMENT)


def _line_ops(s: OnShow, call: str, source: str) -> list[list[int]]:
    """Return the operators of each line of a source."""
    binding = next(b for b in s.now.compiled.program.kernel_calls if b.name == call)
    origins = line_origins(source, binding.kernel_call.kernel)
    return [s.house.positions(sorted(ops)) for ops in origins]


def operator(s: OnShow, op: int) -> Any:
    """Return the thread and the inspector of a source operator."""
    name = item(s.house.operators, op, "operator").name
    return inspection.data(s, name)


@dataclass(frozen=True)
class PictureContext:
    """The session on show from one point of view: which device, which tile."""

    on_show: OnShow
    view: View

    @property
    def now(self) -> Setting:
        """The setting on show."""
        return self.on_show.now

    @property
    def pinned(self) -> Setting:
        """The baseline, A."""
        return self.on_show.pinned

    @property
    def house(self) -> House:
        """The parts of the explorer."""
        return self.on_show.house

    @property
    def walls(self) -> Walls:
        """The walls on show."""
        return self.on_show.walls

    @property
    def plan(self) -> Any:
        """The memory plan."""
        return self.on_show.plan

    @property
    def manual_moves(self) -> ManualMoves:
        """The connections that were moved by hand."""
        return self.on_show.manual_moves

    @property
    def runs(self) -> bool:
        """True if the setting runs on this machine."""
        return self.on_show.runs

    def times(self, binding: str) -> Times:
        """Return the timed tiles of a kernel."""
        return self.on_show.times(binding)

    def timed(self, loop: str) -> tuple[TimedSchedule, ...]:
        """Return the timed schedules of a loop."""
        return self.on_show.timed(loop)

    def clocked(self, picture: str, about: str) -> Any:
        """Return the measurement that belongs to a picture."""
        return self.on_show.clocked(picture, about)


def picture(
    s: OnShow, room: str, op: int = -1, device: str = "", rank: int = -1, **more: Any
) -> Any:
    """Return a picture, its table and its controls, about an operator if one is given."""
    name = item(s.house.operators, op, "operator").name if op >= 0 else ""
    check_question("picture", _view_fields, more)
    view = View(str(device), -1 if rank == -1 else position(rank), **_view_fields(**more))
    seen = PictureContext(s, _initial_view(view, s.view))
    mine = gallery.find_picture(room)
    drawn = mine.draw(seen, name)
    answer = {**gallery.for_page(mine, drawn), "table": table_part(drawn[2], s.house)}
    if mine.family is not None:
        answer["controls"] = mine.family.controls(seen, name)
    if mine.clock is not None:
        answer["controls"] = _with_clock(seen, mine, op, name, answer.get("controls"))
    return answer


def _initial_view(view: View, first: View) -> View:
    """Return a view with the step and the comparison that the page began with."""
    step = first.step if view.step < 0 else view.step
    return replace(view, step=step, against=view.against or first.against)


def _with_clock(s: PictureContext, picture: Picture, op: int, name: str, chosen: Any) -> Any:
    """Return the controls, with a button for what can be measured."""
    assert picture.clock is not None
    device, form = s.now.compiled.device, chosen or controls(s)
    here = target_of(device).is_emitted or picture.clock.code != "needed"
    own = here and s.view.device in ("", device.name)
    if not own or picture.clock.about(s, name) is None:
        return form
    request: dict[str, Any] = {"room": picture.name, "op": op}
    if s.view.symbol:
        request["symbol"] = s.view.symbol
    return {**form, "action": ["clock", picture.clock.title, request]}


def _view_fields(
    policy: str = "",
    units: int = 0,
    bricks: int = 0,
    kernels: str = "",
    loop: str = "",
    launch: str = "",
    barrier: str = "",
    symbol: str = "",
    step: int = -1,
    against: str = "",
    opened: str = "",
    cut: str = "",
    bits: str = "",
    width: int = 0,
    height: int = 0,
) -> dict[str, Any]:
    """Check and convert the fields of a view that come from the page."""
    fields = {"policy": str(policy), "units": position(units), "bricks": position(bricks)}
    return fields | {
        "kernels": str(kernels),
        "loop": str(loop),
        "launch": str(launch),
        "barrier": str(barrier),
        "symbol": str(symbol),
        "step": -1 if step == -1 else position(step),
        "against": str(against),
        "opened": str(opened),
        "cut": str(cut),
        "bits": str(bits),
        "width": min(position(width), MOST_PIXELS),
        "height": min(position(height), MOST_PIXELS),
    }


def library(s: OnShow) -> Binary:
    """Return the script that draws charts, compressed."""
    return Binary({}, (plots.library(),))


READERS: Mapping[str, Callable[..., Any]] = {
    "program": program,
    "imported": imported,
    "graph": graph,
    "step_graph": step_graph,
    "board": board,
    "settings": settings,
    "matches": matches,
    "match": match,
    "versus": versus,
    "kernel": kernel,
    "operator": operator,
    "picture": picture,
    "library": library,
}
