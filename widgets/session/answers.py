"""Questions that only read what is on show: a step's program, a kernel's text, an operator, a
picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from explorer.errors import BadOption
from explorer.garbage import rare_collections
from explorer.ir.stage import Stage
from explorer.runtime.control.way_times import Timed
from widgets.draw import plots
from widgets.model import house as house_parts
from widgets.model.controls import settings as controls_of
from widgets.model.hand import Hand
from widgets.model.house import House, table_part
from widgets.model.knobs import Setting, fusion
from widgets.model.on_show import OnShow, Times, View, Walls
from widgets.model.picture import Picture, controls
from widgets.program import matches_picture, program_diff, switchboard
from widgets.program.generated_source import LANGUAGES, PTX_COMMENT, SourceRows, line_origins
from widgets.program.generated_source import data as source_data
from widgets.program.instructions import explained
from widgets.program.linked_lines import declared
from widgets.program.program_diff import DiffLine
from widgets.rooms import gallery, inspection
from widgets.session.questions import check_question, item, position
from widgets.session.wall_views import Binary

MOST_PIXELS = 4096  # of a drawing's sides


def program(s: OnShow, step: int) -> Any:
    """The lines of the program after a step, and those that went."""
    snapshot = item(s.now.compiled.snapshots, step, "step")
    both = snapshot.before, snapshot.after
    with rare_collections():
        rows = s.house.kept(f"lines {step}", (), lambda: _rows(s, program_diff.data(*both)))
    failed = snapshot.checked if isinstance(snapshot.checked, str) else ""
    return {"lines": rows, "failed": failed}


def versus(s: OnShow) -> Any:
    """The lines of the program on show, and those of A's that went."""
    lines = program_diff.data(s.pinned.compiled.program, s.now.compiled.program)
    return {"lines": _rows(s, lines), "failed": ""}


def graph(s: OnShow, view: str, opened: str = "") -> Any:
    """A graph with repeated layers folded but those `opened`, keys with commas between; "flat":
    without layers.
    """
    if view not in house_parts.VIEWS:
        known = ", ".join(house_parts.VIEWS)
        raise BadOption(f"there is no graph {str(view)[:40]!r}", expected=known)
    with rare_collections():
        if opened == "flat":
            return house_parts.flat_graph(s.house, view)
        return house_parts.folded_graph(s.house, view, [k for k in str(opened).split(",") if k])


def step_graph(s: OnShow, step: int) -> Any:
    """The graph of the program after a step, everything where it stands in every step."""
    item(s.now.compiled.snapshots, step, "step")
    return s.house.kept(f"graph {step}", (), lambda: house_parts.step_part(s.house, step))


def board(s: OnShow) -> Any:
    """The switchboard: every step with its knobs and their positions, and both pipelines in
    numbers.
    """
    found = switchboard.data(s.now.compiled, s.pinned.compiled)
    at = {x.name: n for n, x in enumerate(s.now.compiled.snapshots)}
    weld = fusion(s.now, s.pinned)
    off = weld.labels.index("off")
    as_a = (
        weld.pinned
        if weld.pinned not in (None, off)
        else next(n for n in range(len(weld.labels)) if n != off)
    )
    steps = []
    for row in found.steps:
        ends = (off, as_a) if row.knob == weld.name else (0, 1)
        steps.append({**asdict(row), "at": at.get(row.name, -1), "off": ends[0], "back": ends[1]})
    return {"steps": steps, "numbers": [list(n) for n in found.numbers]}


def settings(s: OnShow, room: str) -> Any:
    """The controls of a room: of every option, or of every figure of the device."""
    now, a = s.now.compiled, s.pinned.compiled
    found = {"options": controls_of.options, "hardware": controls_of.figures}
    if room not in found:
        raise BadOption(f"there are no settings in {str(room)[:40]!r}", expected=", ".join(found))
    return {"controls": [asdict(c) for c in found[room](now, a)], "device": now.device.name}


def matches(s: OnShow, step: int) -> Any:
    """The rules of a step, and each of their matches: its rule, its title, what it is about."""
    item(s.now.compiled.snapshots, step, "step")
    found = matches_picture.of_step(s, step)
    return {
        "rules": [[r.name, r.place, r.line, r.says, r.source] for r in found.rules],
        "matches": [[r.rule, r.title, r.about, s.house.positions(r.ops)] for r in found.rows],
        "told": all(r.match.told for r in found.rows),
    }


def match(s: OnShow, step: int, number: int) -> Any:
    """The part of the program that a match is about, before and after."""
    item(s.now.compiled.snapshots, step, "step")
    row = item(matches_picture.of_step(s, step).rows, number, "match")
    return {"lines": _rows(s, row.lines)}


def imported(s: OnShow) -> Any:
    """The lines of the program as it was imported."""
    steps = s.now.compiled.snapshots
    program = steps[0].before if steps else s.now.compiled.program
    return {"lines": _rows(s, program_diff.data(program, program)), "failed": ""}


def _rows(s: OnShow, lines: Sequence[DiffLine]) -> list[Any]:
    return [
        [r.mark, r.number, _named(s, r), r.family, s.house.positions(r.ops), r.mate, r.words]
        for r in lines
    ]


def _named(s: OnShow, line: DiffLine) -> str:
    """A line, and behind that of a call what other views call it."""
    name = s.house.heaviest(line.ops) if line.family and not line.text.startswith("    ") else ""
    said = name and f" {line.text} ".find(f" {name} ") < 0
    return f"{line.text}{', ' if '  # ' in line.text else '  # '}{name}" if said else line.text


def kernel(s: OnShow, call: int, language: str = "numba") -> Any:
    """The lines of one call's kernel: `from` are the lines of its source that they come from, 0 for
    none, and `ops` the operators of each line of the source, both where they are known; `together`
    are lines of the source that belong to each other, `note` says how far the lines can be trusted,
    and `help` what the instructions of assembly do.
    """
    name = item(s.house.calls, call, "call").name
    shown = s.now.compiled
    found = next((k for k in (*shown.kernels, *shown.blocks) if k.name == name), None)
    if found is None and shown.program.stage is Stage.PLANNED and shown.device.kind == "cpu":
        why = "it comes when this is measured" if s.runs else f"{shown.device.name} is not here"
        raise BadOption(f"{name} has no code yet: {why}")
    if found is None:
        raise BadOption(f"{name} is no kernel: it runs as control flow or in a library")
    if language not in LANGUAGES:
        raise BadOption(f"there is no language {language[:20]!r}")
    rows = source_data(found, language)
    return {
        "name": rows.kernel,
        "lines": rows.lines,
        "all": s.house.positions(rows.ops),
        "family": s.house.calls[call].family,
        "from": rows.sources or None,
        "ops": _line_ops(s, name, found.source) if rows.sources else None,
        "together": declared(found.source),
        "help": explained(rows.lines) if _has_instructions(rows) else {},
        "note": "" if language == "numba" else found.listings.note,
    }


def _has_instructions(rows: SourceRows) -> bool:
    """Whether it is assembly, or the PTX that stands in the place of LLVM IR."""
    return rows.language == "assembly" or rows.lines[0].startswith(PTX_COMMENT)


def _line_ops(s: OnShow, call: str, source: str) -> list[list[int]]:
    """The operators of each line of a source."""
    binding = next(b for b in s.now.compiled.program.kernel_calls if b.name == call)
    origins = line_origins(source, binding.kernel_call.kernel)
    return [s.house.positions(sorted(ops)) for ops in origins]


def operator(s: OnShow, op: int) -> Any:
    """The thread and the inspector of a source operator."""
    name = item(s.house.operators, op, "operator").name
    return inspection.data(s, name)


@dataclass(frozen=True)
class Seen:
    """What is on show, from a point of view: which device, which tile."""

    on_show: OnShow
    view: View

    @property
    def now(self) -> Setting:
        """The setting on show."""
        return self.on_show.now

    @property
    def pinned(self) -> Setting:
        """A."""
        return self.on_show.pinned

    @property
    def house(self) -> House:
        """Its parts."""
        return self.on_show.house

    @property
    def walls(self) -> Walls:
        """Its walls."""
        return self.on_show.walls

    @property
    def plan(self) -> Any:
        """Its memory plan."""
        return self.on_show.plan

    @property
    def hand(self) -> Hand:
        """Its connections that were moved by hand."""
        return self.on_show.hand

    @property
    def runs(self) -> bool:
        """Whether it runs here."""
        return self.on_show.runs

    def times(self, binding: str) -> Times:
        """The tiles of a kernel that were timed."""
        return self.on_show.times(binding)

    def timed(self, loop: str) -> tuple[Timed, ...]:
        """The ways of a loop that were timed."""
        return self.on_show.timed(loop)

    def clocked(self, picture: str, about: str) -> Any:
        """What a picture's clock said."""
        return self.on_show.clocked(picture, about)


def picture(
    s: OnShow, room: str, op: int = -1, device: str = "", rank: int = -1, **more: Any
) -> Any:
    """A picture and its table, about an operator where one is given, and what may be chosen in
    it.
    """
    name = item(s.house.operators, op, "operator").name if op >= 0 else ""
    check_question("picture", _more, more)
    view = View(str(device), -1 if rank == -1 else position(rank), **_more(**more))
    seen = Seen(s, _begun(view, s.view))
    mine = gallery.named(room)
    drawn = mine.draw(seen, name)
    found = {**gallery.for_page(mine, drawn), "table": table_part(drawn[2], s.house)}
    if mine.family is not None:
        found["controls"] = mine.family.controls(seen, name)
    if mine.clock is not None:
        found["controls"] = _with_clock(seen, mine, op, name, found.get("controls"))
    return found


def _begun(view: View, first: View) -> View:
    """A view with the step, and what it is compared with, that a page began with."""
    step = first.step if view.step < 0 else view.step
    return replace(view, step=step, against=view.against or first.against)


def _with_clock(s: Seen, picture: Picture, op: int, name: str, chosen: Any) -> Any:
    """What may be chosen, with the button of what can be measured."""
    assert picture.clock is not None
    device, found = s.now.compiled.device, chosen or controls(s)
    here = device.kind == "cpu" or picture.clock.code != "needed"
    own = here and s.view.device in ("", device.name)
    if not own or picture.clock.about(s, name) is None:
        return found
    asked: dict[str, Any] = {"room": picture.name, "op": op}
    if s.view.symbol:
        asked["symbol"] = s.view.symbol
    return {**found, "action": ["clock", picture.clock.title, asked]}


def _more(
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
    width: int = 0,
    height: int = 0,
) -> dict[str, Any]:
    """Which walls, which loops, or which step, and how large, from outside."""
    found = {"policy": str(policy), "units": position(units), "bricks": position(bricks)}
    return found | {
        "kernels": str(kernels),
        "loop": str(loop),
        "launch": str(launch),
        "barrier": str(barrier),
        "symbol": str(symbol),
        "step": -1 if step == -1 else position(step),
        "against": str(against),
        "opened": str(opened),
        "cut": str(cut),
        "width": min(position(width), MOST_PIXELS),
        "height": min(position(height), MOST_PIXELS),
    }


def library(s: OnShow) -> Binary:
    """The script that draws charts, compressed."""
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
