"""One offline file of a compilation: the house with everything it can be asked, and each picture as
a drawing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any

from explorer.errors import IronworksError
from widgets.draw.table import time_text
from widgets.model.house import fixed_parts
from widgets.page import front_end
from widgets.roller import view as roller_view
from widgets.rooms import gallery
from widgets.rooms.gallery import ABOUT_GROUPS, ABOUT_TILES
from widgets.session.session import Session
from widgets.welder import view as welder_view

LANGUAGES = ("numba", "llvm", "assembly")
ABOUT_AN_OPERATOR = (
    "groups",
    *ABOUT_GROUPS,
    *ABOUT_TILES,
    "layout",
    "relax",
    "calls",
    "levels",
    "fusion",
)  # pictures that follow the selection
HEAVIEST = 12  # kernels with Roller's pictures of each, and groups with Welder's
SHEETS = ("v100",)  # and of one kernel for these devices
EACH_OPERATOR = ("relax", "calls", "levels", "fusion")  # and show it before it is one with others


def question_key(kind: str, args: Mapping[str, Any]) -> str:
    """The name of a question in a saved page; `canvas/host.js` builds the same."""
    return "|".join([kind, *(str(args[k]) for k in sorted(args))])


def document(session: Session, *, code: bool = True) -> dict[str, Any]:
    """The house as one JSON value: parts, binary parts in base64, every question's answer."""
    answers: dict[str, Any] = {}

    def ask(kind: str, **args: Any) -> None:
        try:
            answers[question_key(kind, args)] = {"data": session.answer(kind, args)}
        except IronworksError:
            return  # the page then says that it does not hold the answer

    for step in range(len(session.now.compiled.snapshots)):
        ask("program", step=step)
    for op in range(len(session.house.operators)):
        ask("operator", op=op)
    for call in range(len(session.house.calls) if code else 0):
        for language in LANGUAGES:
            ask("kernel", call=call, language=language)
    _pictures(session, answers)
    return {
        "parts": {**fixed_parts(), **session.parts()},
        "answers": answers,
        "bytes": {n: base64.b64encode(b).decode() for n, b in session.buffers().items()},
        "saved": "A saved page: everything can be looked at, nothing can be compiled again.",
    }


def _pictures(session: Session, answers: dict[str, Any]) -> None:
    """Each room's picture; those that follow the selection once a kernel."""
    shared: dict[tuple[str, tuple[str, ...]], Any] = {}
    heavy = {
        **dict.fromkeys(ABOUT_TILES, roller_view.heaviest_calls(session, HEAVIEST)),
        **dict.fromkeys(ABOUT_GROUPS, welder_view.greatest_groups(session, HEAVIEST)),
    }
    for room in gallery.ROOMS:
        whole = session.answer("picture", {"room": room, "op": -1})
        for op, operator in enumerate(session.house.operators):
            answer = whole
            if room in ABOUT_AN_OPERATOR and operator.calls:
                if room in heavy and operator.calls[0] not in heavy[room]:
                    continue
                mine = (operator.name,) if room in EACH_OPERATOR else operator.calls
                key = (room, mine)
                if key not in shared:
                    shared[key] = {"svg": _about(session, room, operator.name)} | _chosen(whole)
                answer = shared[key]
            answers[question_key("picture", {"room": room, "op": op})] = {"data": answer}
        answers[question_key("picture", {"room": room, "op": -1})] = {"data": whole}
        for device in SHEETS if room in heavy and room != "connections" else ():
            args = {"room": room, "op": -1, "device": device}
            answers[question_key("picture", args)] = {"data": session.answer("picture", args)}


def _chosen(whole: Mapping[str, Any]) -> dict[str, Any]:
    """The device of a picture, where it has one: no other can be chosen for every operator."""
    found = whole.get("controls")
    return {"controls": found | {"tiles": []}} if found else {}


def _about(session: Session, room: str, op: str) -> str:
    """The picture around an operator. The page lights the selection, so that neighbours may have
    one picture; tables are asked for without an operator.
    """
    figure, _ = gallery.picture(room, session, op)
    return replace(figure, selected="").text()


def page(session: Session, *, code: bool = True) -> str:
    """The file's text: the house on top, then every room as a drawing with its table."""
    name = escape(session.now.compiled.model.name)
    rooms = "".join(_room(session, room) for room in gallery.ROOMS)
    script = front_end.script().replace("export default", "const page =")
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{name}, Ironworks report</title>",
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<style>{front_end.styles()}{front_end.text('report.css')}</style></head>",
            f'<body class="ironworks"><h1>{name}</h1><p class="s">{escape(_timing(session))}</p>',
            '<div id="house"></div>',
            "<noscript>The house needs a script; the drawings below do not.</noscript>",
            f'<section class="rooms">{rooms}</section>',
            f'<script id="content" type="application/json">{_packed(document(session, code=code))}',
            f'</script><script type="module">{script}{front_end.text("report.js")}</script>',
            "</body></html>",
        )
    )


_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def _packed(content: dict[str, Any]) -> str:
    """As JSON, equal answers once: `answers` maps questions to positions in `values`."""
    values: list[str] = []
    known: dict[str, int] = {}
    places = {}
    for key, answer in content["answers"].items():
        text = json.dumps(answer, separators=(",", ":"))
        places[key] = known.setdefault(text, len(values))
        if places[key] == len(values):
            values.append(text)
    rest = json.dumps({**content, "answers": places}, separators=(",", ":"))
    return _inert(f'{rest[:-1]},"values":[{",".join(values)}]}}')


def _inert(text: str) -> str:
    """The same JSON with no "</" and no "<!--": after "<!--<script" the next end tag would not end
    the script element that this stands in.
    """
    return text.replace("</", "<\\/").replace("<!--", "<\\u0021--")


def _room(session: Session, room: str) -> str:
    title, _ = gallery.room(room)
    figure, table = gallery.picture(room, session)
    return (
        f'<article class="room"><header><b>{escape(title)}</b></header>'
        f'<div class="picture">{figure.text()}</div>'
        f"<details><summary>Table</summary>{table.html()}</details></article>"
    )


def _timing(session: Session) -> str:
    time = session.past[-1].time
    device = session.now.compiled.device.name
    if time is None:
        return f"not timed, on {device}"
    return (
        f"{time_text(time.median_us)} a run on {device} (99% interval {time_text(time.low_us)} to "
        f"{time_text(time.high_us)}, n = {time.n})"
    )
