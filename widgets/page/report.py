"""One offline file of a compilation: the house with everything it can be asked, and each picture as
a drawing.
"""

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
from widgets.draw.see import sentence_text
from widgets.draw.table import time_text
from widgets.model.picture import Picture
from widgets.page import front_end
from widgets.roller.view import heaviest_calls
from widgets.rooms import gallery
from widgets.rooms.content import absent
from widgets.session.session import Session
from widgets.session.timing.jobs import error_parts

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
    """The name of a question in a saved page; `canvas/host.js` builds the same."""
    return "|".join([kind, *(str(args[k]) for k in sorted(args))])


def document(session: Session, *, code: bool = True) -> dict[str, Any]:
    """The house as one JSON value: parts, binary parts in base64, every question's answer."""
    answers: dict[str, Any] = {}

    def ask(kind: str, **args: Any) -> None:
        try:
            answers[question_key(kind, args)] = {"data": session.answer(kind, args)}
        except InternalFault as problem:
            answers[question_key(kind, args)] = {"error": error_parts(problem, f"a saved {kind}")}
        except IronworksError:
            return  # the page then says that it does not hold the answer

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
    held = {**session.buffers(), "library": plots.library()}
    return {
        "parts": {**gallery.page_parts(), **session.parts()},
        "answers": answers,
        "bytes": {n: base64.b64encode(b).decode() for n, b in held.items()},
        "saved": "A saved page: everything can be looked at, nothing can be compiled again.",
    }


def _pictures(session: Session, answers: dict[str, Any]) -> None:
    """Each picture; those that follow the selection once a kernel, or once an operator."""
    for picture in gallery.PICTURES:
        try:
            whole = session.answer("picture", {"room": picture.name, "op": -1})
        except IronworksError as problem:  # of a stage that was not reached, or a fault of ours
            refused = {"error": error_parts(problem, f"the picture {picture.name!r}")}
            for op in range(-1, len(session.house.operators)):
                answers[question_key("picture", {"room": picture.name, "op": op})] = refused
            continue
        for op, answer in _of_operators(session, picture, whole):
            key = question_key("picture", {"room": picture.name, "op": op})
            answers[key] = {"data": answer}
        answers[question_key("picture", {"room": picture.name, "op": -1})] = {"data": whole}
        for device in picture.family.sheets if picture.family else ():
            args = {"room": picture.name, "op": -1, "device": device}
            answers[question_key("picture", args)] = {"data": session.answer("picture", args)}


def _of_operators(session: Session, picture: Picture, whole: Any) -> Iterator[tuple[int, Any]]:
    """The picture of each operator by position; of all but the heaviest kernels left out where it
    has a family of tiles or groups, or there are many. Of many operators it is the picture of the
    whole program.
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
            yield op, whole
        elif heavy is None or operator.calls[0] in heavy:
            mine = (operator.name,) if picture.about == "operator" else operator.calls
            if mine not in shared:
                shared[mine] = _about(session, picture, operator.name) | _chosen(whole)
            yield op, shared[mine]


def _chosen(whole: Mapping[str, Any]) -> dict[str, Any]:
    """The device of a picture, where it has one: no other can be chosen for every operator."""
    found = whole.get("controls")
    return {"controls": found | {"tiles": []}} if found else {}


def _about(session: Session, picture: Picture, op: str) -> dict[str, Any]:
    """The picture around an operator. The page lights the selection, so that neighbours may have
    one picture; tables are asked for without an operator.
    """
    rows, figure, table = picture.draw(session, op)
    unlit = replace(figure, selected="") if figure else None
    return gallery.for_page(picture, (rows, unlit, table))


def page(session: Session, *, code: bool = True) -> str:
    """Return the file's text: the explorer on top, then every picture as a drawing with its table,
    under a list of what there is. Pictures without content are named with when they appear.
    """
    name = escape(session.now.compiled.model.name)
    missing = absent(session)
    drawn = {p: _picture(session, p) for p in gallery.PICTURES if p.name not in missing}
    rooms = "".join(drawn.values())
    listed = _contents(list(drawn), missing)
    script = front_end.script().replace("export default", "const page =")
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{name}, Ironworks report</title>",
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<style>{front_end.styles()}{front_end.text('report.css')}</style></head>",
            f'<body class="ironworks"><h1>{name}</h1><p class="s">{escape(_timing(session))}</p>',
            '<div id="house"></div>',
            "<noscript>The explorer needs a script; the drawings below do not.</noscript>",
            f'{listed}<section class="rooms">{rooms}</section>',
            f'<script id="content" type="text/plain">{_packed(document(session, code=code))}',
            f'</script><script type="module">{script}{front_end.text("report.js")}</script>',
            "</body></html>",
        )
    )


_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


def _packed(content: dict[str, Any]) -> str:
    """As JSON, compressed, in letters: equal answers once, `answers` maps questions to positions in
    `values`.
    """
    values: list[str] = []
    known: dict[str, int] = {}
    texts: dict[int, str] = {}  # of one picture that many operators have
    places = {}
    for key, answer in content["answers"].items():
        shared = id(answer.get("data", answer))
        if shared not in texts:
            texts[shared] = json.dumps(answer, separators=(",", ":"))
        text = texts[shared]
        places[key] = known.setdefault(text, len(values))
        if places[key] == len(values):
            values.append(text)
    rest = json.dumps({**content, "answers": places}, separators=(",", ":"))
    whole = f'{rest[:-1]},"values":[{",".join(values)}]}}'
    return base64.b64encode(gzip.compress(whole.encode(), 9, mtime=0)).decode()


def _contents(pictures: Sequence[Picture], missing: Mapping[str, str]) -> str:
    """Return the list of the pictures of a report by stage, and of those that it has not."""
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
        f"<li>{escape(gallery.named(name).title)}: {escape(when)}</li>"
        for name, when in missing.items()
    )
    more = f"<details><summary>Not in this report</summary><ul>{left}</ul></details>"
    return f'<nav class="contents"><h2>Contents</h2><dl>{rows}</dl>{more if left else ""}</nav>'


def _picture(session: Session, picture: Picture) -> str:
    """Return a picture with its table as a part of the page."""
    title, words = escape(picture.title), escape(picture.words)
    head = (
        f'<article id="{picture.name}" class="{CARD}"><header><b>{title}</b>'
        f'<span class="s">{words}</span></header>'
    )
    try:
        drawn = picture.draw(session, "")
    except BadOption as problem:
        return f"{head}<p>{escape(problem.sentence)}</p></article>"
    found, table = gallery.for_page(picture, drawn), drawn[2]
    at = f' data-room="{picture.name}"' if "figure" in found else ""
    see = " ".join(escape(sentence_text(one)) for one in table.see)
    return (
        f'{head}{f"<p>{see}</p>" if see else ""}<div class="picture"{at}>{found["svg"]}</div>'
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
