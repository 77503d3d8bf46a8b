"""The explorer and its rooms as Jupyter widgets; no other file imports Jupyter."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import display

from explorer.compiler.options import Options
from explorer.devices.cpus import runs_on
from explorer.errors import BadOption, IronworksError
from explorer.ir.stage import Stage
from explorer.measure.this_cpu import this_cpu
from widgets.draw import plots
from widgets.draw.svg import Svg, stack_drawings
from widgets.draw.table import draw_table
from widgets.grinder.iterations import TRIPS
from widgets.grinder.view import LOOPS
from widgets.model.compiled import Arrays, Compiled
from widgets.model.glossary import meanings
from widgets.model.picture import Drawn, Picture
from widgets.page import front_end
from widgets.page.front_end import still_html
from widgets.page.progress_line import SILENT, ProgressLine
from widgets.page.traits import SharedTraits
from widgets.rammer import brick_wall_picture
from widgets.rooms import gallery
from widgets.session import state
from widgets.session.comparing import has_code
from widgets.session.compiling import compile_for_display
from widgets.session.handlers import time_shown
from widgets.session.jobs import error_parts, stop_unrequested_jobs
from widgets.session.session import Session, look_at
from widgets.session.shown import Binary, open_recording
from widgets.timed import race_chart, request_wall
from widgets.training import replica_timeline

if TYPE_CHECKING:
    from explorer.course.worklog import WorkLog
    from explorer.generation.generated_many import GeneratedMany
    from explorer.tuning.race import RaceResult

JSON_PARTS = (
    "bar",
    "stages",
    "steps",
    "operators",
    "calls",
    "graph_operators",
    "graph_kernels",
    "graph_first",
    "knobs",
    "verdict",
    "history",
    "undo",
    "kept",
    "walls",
    "revision",
    "absent",
    "no_edit",
)
FIXED_PARTS = ("patterns", "hatches", "families", "causes", "dark_pane", "pictures", "glossary")


def _part() -> Any:
    return traitlets.Any(None, allow_none=True).tag(sync=True)


class SessionWidget(anywidget.AnyWidget):
    """A widget whose page asks a session; timings run in the background and are polled."""

    session: Session
    known_as = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **trait_values: Any) -> None:
        """Create the widget with these traits."""
        super().__init__(**trait_values)
        self.known_as = self.model_id or ""  # with it the page detects a kernel

    def _answer_message(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        """Answer a question of the page.

        Changes are sent before the answer, so that the page is up to date when it arrives.
        """
        kind, before = str(message.get("kind")), self.session.revision
        try:
            data = self.session.answer(kind, dict(message.get("args") or {}))
        except Exception as problem:  # an internal fault must not leave the page waiting
            error = error_parts(problem, f"the question {kind[:40]!r}")
            if self.session.revision != before:  # the preview is gone
                self._send_changes()
            self.send({"id": message.get("id"), "error": error})
            return
        try:
            if (kind in CHANGES or self.session.revision != before) and not refused(data):
                self._send_changes()  # an observer of a trait may raise
        finally:
            reply = data if isinstance(data, Binary) else Binary(data)
            self.send({"id": message.get("id"), "data": reply.data}, list(reply.buffers))

    def _send_changes(self) -> None:
        """Send the page what has changed."""

    def __repr__(self) -> str:
        """Return the widget's class and its model."""
        session = getattr(self, "session", None)  # unset during construction
        about = session.now.compiled.model.name if session else getattr(self, "name", "")
        return f"<{type(self).__name__} of {about}>"

    def __str__(self) -> str:
        """Return the text that a page without a kernel shows."""
        bundle = self._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return str((data or {}).get("text/plain", ""))

    def _ipython_display_(self) -> None:
        """Show the live page, and a still picture that a saved notebook shows in its place."""
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if data:
            display({"text/html": self._still(data), "text/plain": ""}, raw=True)
            display(data, metadata=metadata, raw=True)

    def _still(self, data: Mapping[str, str]) -> str:
        return still_html(self.known_as, data["image/svg+xml"], data["text/plain"])


class House(SessionWidget, SharedTraits):
    """One compilation as a page, linked by one selection; knobs compile and measure in this kernel.

    Its traits are those of `SharedTraits`.
    """

    _esm = front_end.script()
    _css = front_end.styles()
    wall_planned = traitlets.Bytes(b"").tag(sync=True)
    wall_measured = traitlets.Bytes(b"").tag(sync=True)
    wall_recorded = traitlets.Bytes(b"").tag(sync=True)
    wall_more = traitlets.Bytes(b"").tag(sync=True)
    wall_base = traitlets.Bytes(b"").tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    locals().update({name: _part() for name in (*JSON_PARTS, *FIXED_PARTS)})

    def __init__(self, session: Session) -> None:
        """Create the page of a session; code that exists is run once."""
        if session.runs and has_code(session.now):
            session.run_once()
        super().__init__(session=session, **gallery.page_parts(), **_session_parts(session))
        if (shell := get_ipython()) is not None:
            shell.events.register("pre_run_cell", _cell_begins)
        self.on_msg(self._answer_message)
        self.observe(self._looked, "state")

    def _looked(self, change: Mapping[str, Any]) -> None:
        try:
            self.session.look(change["new"])
            self.selected, self.view = change["new"]["op"], change["new"]["room"] or self.view
        except IronworksError:
            self.state = change["old"]
            raise

    def _send_changes(self) -> None:
        with self.hold_sync():
            for name, value in _session_parts(self.session).items():
                if name != "state" and getattr(self, name) != value:
                    setattr(self, name, value)
            self._sync_traits()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the live house, with the wall's picture and the stages' table for saved pages."""
        bundle = super()._repr_mimebundle_(**kwargs)
        walls = self.session.walls
        figure, stages = gallery.picture("stages", self.session)
        if walls.planned is None:
            return _with_still(bundle, figure, stages.text())
        figure, table = gallery.picture("rammer", self.session)
        words = f"{table.caption}\n{stages.text()}"
        return _with_still(
            bundle, figure, words, brick_wall_picture.wall_png(walls.planned, walls.ran[0])
        )


CHANGES = frozenset(
    {
        "turn",
        "as_far",
        "move_brick",
        "profile",
        "fit",
        "take",
        "take_hand",
        "force",
        "keep_edit",
        "drop_edit",
        "measure",
        "undo",
        "redo",
        "go",
        "pin",
        "focus",
        "restore",
    }
)


def _cell_begins(_: object) -> None:
    """End unrequested jobs before a cell runs: it may time something."""
    stop_unrequested_jobs()


def refused(data: Any) -> bool:
    """Return True if a command was refused with a reason and changed nothing."""
    return isinstance(data, Mapping) and bool(data.get("refused"))


def _session_parts(session: Session) -> dict[str, Any]:
    return {**session.parts(), **session.buffers()}


def _with_still(bundle: Any, figure: Svg, text: str, image: bytes = b"") -> Any:
    """Add a still picture and text to a widget's mime bundle."""
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if data is None:
        return bundle
    data["image/svg+xml"] = figure.text("light")
    data["text/plain"] = text
    if image:
        data["image/png"] = base64.b64encode(image).decode()
    return bundle


SYSTEMS: dict[Stage | None, str] = {
    Stage.TASKED: "Grinder",
    Stage.WELDED: "Welder",
    Stage.ROLLED: "Roller",
    Stage.RAMMED: "Rammer",
}


def _opens(picture: Picture) -> bool:
    """Return True if a picture is shown with all pictures of its stage.

    True for the first picture of a system, one with a slider, and one of every stage.
    """
    first = picture.stage in SYSTEMS and gallery.pictures_of_stage(picture.stage)[0] == picture
    return first or bool(picture.every) or picture.family in (LOOPS, TRIPS)


class Rooms(SessionWidget):
    """One system's pictures, for every device, with their manual controls."""

    _esm = front_end.script()
    _css = front_end.styles()
    rooms = _part()
    room = _part()
    title = _part()
    names = _part()
    labels = _part()
    glossary = _part()
    op = _part()

    def __init__(self, session: Session, first: Picture, op: str) -> None:
        """Create the rooms beside `first`, about the operator `op`."""
        pictures = gallery.pictures_beside(first)
        # Pictures without controls are shown only in the live page.
        others = [p for p in pictures if p is not first and p.family]
        self.still = [first, *others]
        names = [o.name for o in session.house.operators]
        mine = _about(session, first, op)
        title = f"{SYSTEMS.get(first.stage, 'Steps')}, {session.now.compiled.model.name}"
        at = names.index(mine) if mine in names else -1
        trait_values = {
            "rooms": [p.page_fields() for p in pictures],
            "room": first.name,
            "glossary": meanings(),
        }
        labels = [o.label for o in session.house.operators]
        super().__init__(**trait_values, title=title, names=names, labels=labels, op=at)
        self.session, self.mine = session, op
        self.on_msg(self._answer_message)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the live rooms, and for saved pages all pictures below each other.

        The requested picture is first, with more of its table.
        """
        bundle = super()._repr_mimebundle_(**kwargs)
        drawings = [gallery.picture(p.name, self.session, self.mine) for p in self.still]
        (_, first), *others = drawings
        text = "\n\n".join((first.text(), *(table.text(12) for _, table in others)))
        return _with_still(bundle, stack_drawings([figure for figure, _ in drawings]), text)


def _about(session: Session, first: Picture, op: str) -> str:
    """Return the operator that a system's pictures are about if `op` was requested."""
    ops = first.family.about(session, op) if first.family else ()
    return op if not ops or op in ops else ops[0]


class Room(SessionWidget):
    """One picture, in the colours of the page: its chart above its drawing or its words."""

    _esm = front_end.script()
    _css = front_end.styles()
    name = traitlets.Unicode("").tag(sync=True)
    html = traitlets.Unicode("").tag(sync=True)
    chart = _part()

    def __init__(
        self, name: str, title: str, about: str, part: dict[str, Any], drawn: Drawn
    ) -> None:
        """Create the picture from its page part `part` and its drawing."""
        _, svg, self.table = drawn
        self.figure = svg or draw_table(self.table)
        head = f'<header><b>{escape(title)}</b><span class="s">{escape(about)}</span></header>'
        words = f"<details><summary>Table</summary>{self.table.html()}</details>"
        body = f'<div class="picture">{part["svg"]}{"" if svg else words}</div>'
        chart_part = part if "figure" in part else None
        html = f'<article class="room">{head}{body}</article>'
        super().__init__(name=name, html=html, chart=chart_part)
        self.on_msg(self._answer_message)

    def _answer_message(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        """Send the script that draws charts, the only request of this page."""
        self.send({"id": message.get("id"), "data": {}}, [plots.library()])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        return _with_still(bundle, self.figure, self.table.text())


def explore(
    source: Any,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    saved: str = "",
    target: Any = "cpu",
    options: Options | None = None,
    recorded: str | Path | None = None,
    log: WorkLog | None = None,
    line: ProgressLine = SILENT,
) -> House:
    """Open the explorer of a compilation or a model.

    `saved` is a saved state (the text of a snapshot file). `line` shows the progress.
    """
    before = state.parse_state(saved) if saved else state.State()
    line.say("Reading the model")
    c, failed = compile_for_display(source, target, options, line.at)
    line.say("Reading what was compiled")
    c, run = open_recording(c, recorded, sizes)
    beside = c is not source and failed is None and runs_on(c.device, this_cpu())
    session = Session(
        c,
        sizes=sizes,
        inputs=inputs,
        saved=before,
        failed=failed,
        coded=beside or None,
        recorded=run,
        log=log,
    )
    if saved:
        if before.digest != c.model.digest:
            raise BadOption(
                "the saved state is about another model",
                expected=c.model.digest,
                actual=before.digest,
            )
        line.say("Restoring what was saved")
        session.restore(saved)
    line.say("Drawing the page")
    return House(session)


def show(
    c: Compiled,
    room: str,
    op: str = "",
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    measured: bool = False,
    step: str = "",
    against: Compiled | None = None,
) -> Room | Rooms:
    """Open one room, about a source operator if one is named.

    `measured` times the tiles of Roller's rooms, and the schedules of a crossing point.
    """
    picture = gallery.find_picture(room)
    session = Session(c, sizes=sizes, inputs=inputs)
    if picture.live == "wall" and session.runs:
        session.run_once()
    if measured:
        time_shown(session, picture, op)
    look_at(session, step, against)
    if _opens(picture):
        return Rooms(session, picture, op)
    drawn = picture.draw(session, op)
    return Room(picture.name, picture.title, c.model.name, gallery.for_page(picture, drawn), drawn)


def race(result: RaceResult) -> Room:
    """Return the chart of a race."""
    table = race_chart.table(result)
    part = {
        "svg": "",
        "figure": plots.for_page(race_chart.chart(result, "", "page")),
        "said": table.caption,
    }
    return Room("race", "Race", result.model, part, (result, None, table))


def replicas(
    runs: replica_timeline.Run | Mapping[str, replica_timeline.Run], steps: tuple[int, int] | None
) -> Room:
    """Return the timeline of replicas."""
    rows = replica_timeline.data(runs, steps)
    table = replica_timeline.table(rows)
    drawn = plots.for_page(replica_timeline.chart(rows, "", "page"))
    part = {"svg": "", "figure": drawn, "said": table.caption}
    return Room("replicas", "Replicas", ", ".join(r.name for r in rows), part, (rows, None, table))


def requests(result: GeneratedMany) -> Room:
    """Return the wall of requests that ran together."""
    table = request_wall.table(result)
    drawn = plots.for_page(request_wall.chart(result, "", "page"))
    part = {"svg": "", "figure": drawn, "said": table.caption}
    return Room("requests", "Requests", "", part, (result, None, table))
