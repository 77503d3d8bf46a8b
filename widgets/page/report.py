"""One offline file of a compilation: the explorer with all its answers, and each picture drawn."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from explorer.errors import BadOption, InternalFault, IronworksError
from explorer.ir.stage import Stage
from widgets.draw import plots
from widgets.draw.table import sentence_text, time_text
from widgets.live import scripts
from widgets.live.data import LivePage
from widgets.live.dense_text import dense_text
from widgets.model.picture import Picture
from widgets.page import front_end
from widgets.roller.view import heaviest_calls
from widgets.rooms import gallery
from widgets.rooms.content import absent
from widgets.session.jobs import error_parts
from widgets.session.session import Session

LANGUAGES = ("numba", "llvm", "assembly")
HEAVIEST = 12  # kernels with Roller's pictures of each, and groups with Welder's
MOST_KERNELS = 64  # with LLVM IR, assembly and pictures of each, the heaviest; chosen
CARD = "room"  # the class of one picture, as house.css has it
WORDS = {  # what the stages do, as canvas/strip.js calls them
    Stage.IMPORTED: "Import",
    Stage.TYPED: "Types",
    Stage.DIFFERENTIATED: "Gradients",
    Stage.LEGALIZED: "Lowering",
    Stage.TASKED: "Control flow",
    Stage.WELDED: "Fusion",
    Stage.ROLLED: "Tiling",
    Stage.RAMMED: "Schedule",
    Stage.PLANNED: "Memory",
    Stage.EMITTED: "Code",
}
MOST_AROUND = 256  # source operators that each get a picture of the program around them; chosen


def question_key(kind: str, args: Mapping[str, Any]) -> str:
    """Return the name of a question in a saved page; `canvas/host.js` builds the same."""
    return "|".join([kind, *(str(args[k]) for k in sorted(args))])


def document(session: Session, *, code: bool = True) -> dict[str, Any]:
    """Return the explorer as one JSON value: parts, binary parts in base64, all answers."""
    answers: dict[str, Any] = {}

    def ask(kind: str, **args: Any) -> None:
        try:
            answers[question_key(kind, args)] = {"data": session.answer(kind, args)}
        except InternalFault as problem:
            answers[question_key(kind, args)] = {"error": error_parts(problem, f"a saved {kind}")}
        except IronworksError:
            return  # the page then reports a missing answer

    ask("imported")
    for step in range(len(session.now.compiled.snapshots)):
        ask("program", step=step)
    for picture in (p for p in gallery.PICTURES if p.family and p.family.name == "steps"):
        for step in range(len(session.now.compiled.snapshots)):
            ask("picture", room=picture.name, op=-1, step=step)
    for op in range(len(session.house.operators)):
        ask("operator", op=op)
    heavy = heaviest_calls(session, MOST_KERNELS)
    for call, binding in enumerate(session.house.calls if code else ()):
        for language in LANGUAGES if binding.name in heavy else LANGUAGES[:1]:
            ask("kernel", call=call, language=language)
    _pictures(session, answers)
    buffers = {**session.buffers(), "library": plots.library()}
    return {
        "parts": {**gallery.page_parts(), **session.parts()},
        "answers": answers,
        "bytes": {n: base64.b64encode(b).decode() for n, b in buffers.items()},
        "saved": "A saved page: everything can be looked at, nothing can be compiled again.",
    }


def _pictures(session: Session, answers: dict[str, Any]) -> None:
    """Add each picture; pictures that follow the selection once per kernel or per operator."""
    for picture in gallery.PICTURES:
        try:
            full_answer = session.answer("picture", {"room": picture.name, "op": -1})
        except IronworksError as problem:  # a stage that was not reached, or an internal fault
            refused = {"error": error_parts(problem, f"the picture {picture.name!r}")}
            for op in range(-1, len(session.house.operators)):
                answers[question_key("picture", {"room": picture.name, "op": op})] = refused
            continue
        for op, answer in _of_operators(session, picture, full_answer):
            key = question_key("picture", {"room": picture.name, "op": op})
            answers[key] = {"data": answer}
        answers[question_key("picture", {"room": picture.name, "op": -1})] = {"data": full_answer}
        for device in picture.family.sheets if picture.family else ():
            args = {"room": picture.name, "op": -1, "device": device}
            answers[question_key("picture", args)] = {"data": session.answer("picture", args)}


def _of_operators(
    session: Session, picture: Picture, full_answer: Any
) -> Iterator[tuple[int, Any]]:
    """Yield the picture of each operator by position.

    Pictures of tiles or groups, and those of large programs, are made only for the heaviest
    kernels. For very many operators it is the picture of the entire program.
    """
    family = picture.family
    many = picture.about == "operator" and len(session.house.operators) > MOST_AROUND
    heavy: Collection[str] | None = None
    if family and family.heaviest:
        heavy = family.heaviest(session, HEAVIEST)
    elif picture.about == "kernel" and len(session.house.calls) > MOST_KERNELS:
        heavy = heaviest_calls(session, MOST_KERNELS)
    shared: dict[tuple[str, ...], Any] = {}
    for op, operator in enumerate(session.house.operators):
        if not picture.about or not operator.calls or many:
            yield op, full_answer
        elif heavy is None or operator.calls[0] in heavy:
            mine = (operator.name,) if picture.about == "operator" else operator.calls
            if mine not in shared:
                shared[mine] = _about(session, picture, operator.name) | _chosen(full_answer)
            yield op, shared[mine]


def _chosen(full_answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device control of a picture: in a saved page no other can be chosen."""
    form = full_answer.get("controls")
    return {"controls": form | {"tiles": []}} if form else {}


def _about(session: Session, picture: Picture, op: str) -> dict[str, Any]:
    """Return the picture around an operator.

    The page highlights the selection, so neighbours can share a picture. Tables are requested
    without an operator.
    """
    rows, figure, table = picture.draw(session, op)
    unlit = replace(figure, selected="") if figure else None
    return gallery.for_page(picture, (rows, unlit, table))


def page(session: Session, *, code: bool = True, live: LivePage | None = None) -> str:
    """Return the text of the file.

    The explorer is on top, then every picture as a drawing with its table, after a table of
    contents. Pictures without content are listed with when they appear. With `live`, the programs
    that the page runs in a browser stand above the explorer.
    """
    name = escape(session.now.compiled.model.name)
    missing = absent(session)
    runs = live is not None and not live.refusal
    shown = [p for p in gallery.PICTURES if p.name not in missing]
    rooms = "".join(_picture(session, p, runs and p.live == "wall") for p in shown)
    listed = _contents(shown, missing)
    script = front_end.script().replace("export default", "const page =")
    policy = _LIVE_POLICY if runs else _POLICY
    content = _packed(document(session, code=code))
    encoded = dense_text if runs else _base64
    styles = f"{front_end.styles()}{front_end.text('report.css')}"
    if runs:
        script += scripts.page_script(front_end.MODULES)
        styles += scripts.panel_styles()
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{name}, Ironworks report</title>",
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<style>{styles}</style></head>",
            f'<body class="ironworks"><h1>{name}</h1><p class="s">{escape(_timing(session))}</p>',
            _live(live),
            '<div id="house"></div>',
            "<noscript>The explorer needs a script; the drawings below do not.</noscript>",
            f'{listed}<section class="rooms">{rooms}</section>',
            f'<script id="content" type="text/plain">{encoded(content)}',
            f'</script><script type="module">{script}{front_end.text("report.js")}</script>',
            "</body></html>",
        )
    )


_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_LIVE_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)


def _live(live: LivePage | None) -> str:
    """Return the part of the page that runs in a browser, or the sentence why nothing does."""
    if live is None:
        return ""
    if live.refusal:
        return f'<p class="s live-refused">{escape(live.refusal)}</p>'
    return (
        '<section class="room live-page" id="live" aria-label="In this browser">'
        "<noscript>Running in this browser needs a script.</noscript></section>"
        f'<script id="live-content" type="text/plain">{live.dense}</script>'
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _packed(content: dict[str, Any]) -> bytes:
    """Return the content as compressed JSON, with equal answers stored once.

    `answers` maps questions to positions in `values`.
    """
    values: list[str] = []
    positions: dict[str, int] = {}
    texts: dict[int, str] = {}  # shared by many operators
    places = {}
    for key, answer in content["answers"].items():
        shared = id(answer.get("data", answer))
        if shared not in texts:
            texts[shared] = json.dumps(answer, separators=(",", ":"))
        text = texts[shared]
        places[key] = positions.setdefault(text, len(values))
        if places[key] == len(values):
            values.append(text)
    head = json.dumps({**content, "answers": places}, separators=(",", ":"))
    packed = f'{head[:-1]},"values":[{",".join(values)}]}}'
    return gzip.compress(packed.encode(), 9, mtime=0)


def _contents(pictures: Sequence[Picture], missing: Mapping[str, str]) -> str:
    """Return the pictures of a report by stage, and the missing ones."""
    stages: dict[str, list[Picture]] = {}
    for picture in pictures:
        title = WORDS[picture.stage] if picture.stage is not None else picture.every
        stages.setdefault(title or "More", []).append(picture)
    rows = "".join(
        f"<dt>{escape(stage)}</dt><dd>"
        + " · ".join(f'<a href="#{p.name}">{escape(p.title)}</a>' for p in mine)
        + "</dd>"
        for stage, mine in stages.items()
    )
    left = "".join(
        f"<li>{escape(gallery.find_picture(name).title)}: {escape(when)}</li>"
        for name, when in missing.items()
    )
    more = f"<details><summary>Not in this report</summary><ul>{left}</ul></details>"
    return f'<nav class="contents"><h2>Contents</h2><dl>{rows}</dl>{more if left else ""}</nav>'


def _picture(session: Session, picture: Picture, runs: bool) -> str:
    """Return a picture with its table as a part of the page.

    `runs`: a button beside it runs the page's programs.
    """
    title, words = escape(picture.title), escape(picture.words)
    head = (
        f'<article id="{picture.name}" class="{CARD}"><header><b>{title}</b>'
        f'<span class="s">{words}</span>{"<span data-runs></span>" if runs else ""}</header>'
    )
    try:
        drawn = picture.draw(session, "")
    except BadOption as problem:
        return f"{head}<p>{escape(problem.sentence)}</p></article>"
    part, table = gallery.for_page(picture, drawn), drawn[2]
    at = f' data-room="{picture.name}"' if "figure" in part else ""
    see = " ".join(escape(sentence_text(sentence)) for sentence in table.see)
    return (
        f'{head}{f"<p>{see}</p>" if see else ""}<div class="picture"{at}>{part["svg"]}</div>'
        f"<details><summary>Table</summary>{table.html()}</details></article>"
    )


def _timing(session: Session) -> str:
    time = session.steps.now.time
    device = session.now.compiled.device.name
    if time is None:
        return f"not timed, on {device}"
    return (
        f"{time_text(time.median_us)} per run on {device} (99 %: {time_text(time.low_us)} to "
        f"{time_text(time.high_us)}, n = {time.n})"
    )
