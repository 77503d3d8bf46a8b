"""Drawing, table and sentences of the stages."""

from __future__ import annotations

from explorer.plain_text import counted
from widgets.draw.slide import LINE, NARROW, PX, Text, column_widths, cut_to, line
from widgets.draw.svg import Svg, label, path, rect, text_width
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model import stage_strip
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.model.stage_strip import StageCell

HIGHEST, TWO = 64.0, 46.0  # of a stage, and from where on it has a second line


def table(cells: tuple[StageCell, ...]) -> Table:
    """Return one row per stage."""
    return Table(
        ("stage", "seconds", "run", "changes", "checked"),
        tuple(
            (
                c.stage,
                round(c.seconds, 4),
                _state(c),
                c.changes or ("decided" if c.decided else 0),
                _mark(c.checked),
            )
            for c in cells
        ),
        see=see(cells),
    )


def _state(cell: StageCell) -> str:
    return ("kept" if cell.from_cache else "new") if cell.ran else "not run"


def _mark(checked: None | bool | str) -> str:
    match checked:
        case None:
            return "not checked"
        case True:
            return "equal"
        case False:
            return "differs"
    return checked


def see(cells: tuple[StageCell, ...]) -> tuple[Sentence, ...]:
    """Return the sentences: the compile time, the longest stage, and the number with an effect."""
    ran = [n for n, c in enumerate(cells) if c.ran]
    if not ran:
        return (("No stage has run.",),)
    total_seconds = sum(c.seconds for c in cells)
    most = max(ran, key=lambda n: cells[n].seconds)
    sentences: list[Sentence] = []
    if total_seconds > 0:
        name = Mark(cells[most].stage, f"stage{most}")
        share = f" most, {cells[most].seconds / total_seconds:.0%}."
        sentences.append((f"Compiling took {total_seconds:.3f} s, ", name, share))
    did = sum(_did(c) for c in cells)
    stages = Mark(f"{did} of {counted(len(ran), 'stage')}", "did" if did else "ran")
    sentences.append((stages, " changed the program or decided something."))
    return tuple(sentences)


def _did(cell: StageCell) -> bool:
    return bool(cell.ran and (cell.changes or cell.decided))


def figure(cells: tuple[StageCell, ...], size: tuple[int, int]) -> Svg:
    """Draw one row per stage: its effect, a bar for its time, and its promise."""
    width, height = size
    pitch = min(HIGHEST, height / max(1, len(cells)))
    longest = max((c.seconds for c in cells), default=0) or 1
    rows = [_cells(c) for c in cells]
    has_second_line = pitch >= TWO  # a second line has what a stage promises
    bar = max(40.0, width * 0.3) if width >= NARROW else 0.0
    room = column_widths(rows, width - (bar + 20 if bar else 0))
    promises = (
        max((text_width(c.promise, PX) for c in cells), default=0) + 20 if has_second_line else 0
    )
    start = max(sum(room) + 16 * len(room) + 4, min(promises, width * 0.6))
    marks = []
    for n, (cell, row) in enumerate(zip(cells, rows)):
        y = n * pitch
        top = y + (pitch / 2 - 3 if has_second_line else pitch / 2 + 5)
        body = path(f"M0 {y + 0.5:g}H{width:g}", "var(--line)") if n else ""
        body += "".join(line(row, room, 0, top))
        if has_second_line:
            promise = cut_to(cell.promise, start - 12 if bar else width)
            body += label(0, top + LINE + 1, promise, title=cell.promise)
        if bar and cell.seconds:
            wide_ = max(1.0, (width - start) * cell.seconds / longest)
            body += rect(start, y + pitch / 2 - 8, wide_, 16, "var(--t2)", title=_took(cell))
        keys = f"stage{n}{' ran' * cell.ran}{' did' * _did(cell)}"
        marks.append(lit_by(body, keys))
    return Svg(width, height, "".join(marks), "Stages of the compilation", px=PX)


def _took(cell: StageCell) -> str:
    return f"{cell.seconds:.3f} s, {_state(cell)}" if cell.ran else "not run"


def _cells(cell: StageCell) -> tuple[Text, ...]:
    style = "i w" if _did(cell) else ""
    did = f"{cell.changes:,} changes" if cell.changes else "decided" if cell.decided else ""
    checked = "" if cell.checked is None else _mark(cell.checked)
    return (
        Text(cell.stage, style, title=cell.promise),
        Text(did, "i"),
        Text(checked, "bad" if checked not in ("", "equal") else ""),
        Text(_took(cell), "i" if cell.ran else "", end=True),
    )


def _draw(s: OnShow, op: str) -> Drawn:
    rows = stage_strip.data(s.now.compiled)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="stages",
    title="Stages",
    words="Every stage of the compilation with its time and what it changed.",
    draw=_draw,
)
