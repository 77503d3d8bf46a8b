"""The slides of a chapter, as one HTML file that asks nothing of a network.

    python docs/slides.py build/course/06_schedules.ipynb build/slides/06_schedules.html

They are made from the chapter as `docs/record.py` recorded it: each *Idea* is a slide, each picture
is one, and each question is one. The answer of a prediction is on the slide after its question.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import mistune

from widgets.draw.theme import DARK, FONTS, LIGHT

ROOT = Path(__file__).parents[1]
REVEAL = ROOT / "build/reveal"  # docs/reveal.py
GUIDE = ROOT / "notebooks/TEACHING.md"
STYLE, SCRIPT = ROOT / "docs/slides/deck.css", ROOT / "docs/slides/deck.js"
PLOTLY = "../course/plotly.min.js"
SVG, CHART = "image/svg+xml", "application/vnd.plotly.v1+json"
PARTS = ("Idea", "Run", "Predict", "Investigate", "Modify", "Before you go")
MOST_LINES, MOST_COLUMNS = 12, 92  # of printed output or code on a slide
MOST_STUB_LINES = 16  # of a small exercise
MOST_PANELS = 3  # of a picture that is a stack of several; the chapter has all
FLATTEST = 0.58  # height over width of a picture that fills a slide
UNTOLD = "Predict first:"  # printed by a reveal without a prediction


@dataclass(frozen=True, slots=True)
class Slide:
    """A slide: its kind, which is its class and its label, its heading, its HTML and its notes."""

    kind: str
    heading: str
    body: str
    notes: tuple[str, ...] = ()
    section: str = ""
    question: str = ""  # of a prediction or its answer


@dataclass(frozen=True, slots=True)
class Guide:
    """The teacher's guide for one chapter: its row of the table and the minutes of each part."""

    can: str = ""
    mistakes: str = ""
    minutes: Mapping[str, str] = field(default_factory=dict)

    def time(self, part: str) -> tuple[str, ...]:
        """Return the sentence on the minutes of a part of the class."""
        return tuple(text for name, text in self.minutes.items() if part in name)


def read_guide(chapter: str) -> Guide:
    """Return the row of a chapter in the teacher's guide."""
    text = GUIDE.read_text("utf-8")
    minutes = {line: f"{line}." for line in re.findall(r"^- (\d+ minutes .*?)[;.]$", text, re.M)}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == chapter:
            return Guide(cells[1], cells[3], minutes)
    return Guide(minutes=minutes)


def slides(notebook: Mapping[str, Any], chapter: str, guide: Guide) -> list[Slide]:
    """Return the slides of a chapter in order; the exit question is the last one.

    A prediction that the chapter answers in a later section is asked again before its answer.
    """
    deck: list[Slide] = []
    for slide in _Deck(notebook, chapter, guide).slides():
        if slide.kind == "answer" and deck[-1].kind != "predict":
            asked = [s for s in deck if s.kind == "predict" and s.question == slide.question]
            deck += [replace(s, heading=slide.heading, section=slide.section) for s in asked]
        deck.append(slide)
    return deck


class _Deck:
    """The state while the cells of a chapter become slides."""

    def __init__(self, notebook: Mapping[str, Any], chapter: str, guide: Guide) -> None:
        self.cells = [
            cell
            for cell in notebook["cells"]
            if cell.get("metadata", {}).get("ironworks", {}).get("role") != "text"
        ]
        self.answers: Mapping[str, str] = notebook["metadata"].get("answers", {})
        self.chapter, self.guide = chapter, guide
        self.section = ""
        self.words: list[str] = []  # of a *Run* whose cells come next
        self.predicting: list[str] = []  # of a *Predict* whose question comes next
        self.questions: dict[str, str] = {}  # by the variable of the prediction
        self.exit: list[str] = []
        self.further: list[str] = []

    def slides(self) -> Iterator[Slide]:
        first, *rest = self.cells
        yield from self._title(_text(first["source"]))
        at = 0
        while at < len(rest):
            cell = rest[at]
            if cell["cell_type"] == "markdown":
                yield from self._markdown(cell, rest[at + 1 :])
                at += 1
                continue
            run = [cell]
            while at + len(run) < len(rest) and rest[at + len(run)]["cell_type"] == "code":
                run.append(rest[at + len(run)])
            yield from self._code(run)
            at += len(run)
        yield from self._flush()
        yield from self._live()
        notes = (*self.guide.time("exit question"), *self.further)
        yield Slide("exit", "Before you go", _html("\n\n".join(self.exit)), notes)

    def _title(self, text: str) -> Iterator[Slide]:
        heading, *paragraphs = _paragraphs(text)
        number, _, title = heading.lstrip("# ").partition(". ")
        can = next((p for p in paragraphs if p.startswith("**After this class")), "")
        body = f'<p class="number">{escape(number)}</p>{_html(can)}'
        students = (f"Students can then {self.guide.can}.",) if self.guide.can else ()
        yield Slide("title", title, body, students)
        about = [p for p in paragraphs if p != can and not p.startswith("Each section")]
        yield Slide("idea", title, _lead("\n\n".join(about)), section="About this chapter")

    def _markdown(
        self, cell: Mapping[str, Any], after: Sequence[Mapping[str, Any]]
    ) -> Iterator[Slide]:
        paragraphs = _paragraphs(_text(cell["source"]))
        if paragraphs[0].startswith("#"):
            yield from self._flush()
            heading = paragraphs.pop(0).lstrip("# ")
            if str(cell.get("id", "")).startswith("goal-"):
                yield self._exercise(heading, paragraphs, after)
                return
            self.section = heading
            if heading == "Where to go next":
                self.further = paragraphs
                return
        part, texts = "", dict[str, list[str]]()
        for paragraph in paragraphs:
            named = re.match(rf"\*({'|'.join(PARTS)})\.\*\s*", paragraph)
            if named:
                part, paragraph = named[1], paragraph[named.end() :]
            texts.setdefault(part, []).append(paragraph)
        for part, several in texts.items():
            yield from self._part(part, several)

    def _part(self, part: str, texts: list[str]) -> Iterator[Slide]:
        if part == "Idea":
            notes = self.guide.time("for the sections")
            yield self._slide("idea", _lead("\n\n".join(texts)), notes)
        elif part == "Predict":
            yield from self._flush()
            self.predicting = texts
        elif part in ("Investigate", "Modify"):
            yield from self._flush()
            yield self._slide(part.lower(), _html("\n\n".join(texts)))
        elif part == "Before you go":
            self.exit = texts
        elif not texts[0].startswith("Stuck?"):
            self.words += texts

    def _exercise(
        self, heading: str, paragraphs: list[str], after: Sequence[Mapping[str, Any]]
    ) -> Slide:
        kind, _, title = heading.partition(": ")
        goal = _html("\n\n".join(paragraphs))
        if kind == "Exercise":
            notes = [*self.guide.time("for the exercise")]
            if self.guide.mistakes:
                notes.append(f"Common mistakes: {self.guide.mistakes}.")
            return Slide("exercise", title, goal, tuple(notes), "Exercise")
        stub = _text(after[0]["source"]) if after and after[0]["cell_type"] == "code" else ""
        notes = (f"Students do this now: {kind.lower()}. Their next cell checks it.", _code(stub))
        part = _without_imports(stub)
        shown = _pre(part, "code", MOST_STUB_LINES) if _fits(part, MOST_STUB_LINES) else ""
        return Slide("try", title, goal + shown, notes, f"{kind}: try it now")

    def _code(self, run: Sequence[Mapping[str, Any]]) -> Iterator[Slide]:
        """Yield the slides of code cells that no words are between."""
        plain: list[Mapping[str, Any]] = []
        asked = ""
        for cell in run:
            source = _text(cell["source"])
            ironworks = cell.get("metadata", {}).get("ironworks", {})
            if ironworks.get("role") == "answer" or "course.check(" in source:
                continue
            if "course.predict(" in source:
                yield from self._results(plain, asked)
                plain, asked = [], ""
                yield from self._prediction(source)
                continue
            revealed = re.search(r"course\.reveal\((\w+),", source)
            if revealed:
                yield from self._results(plain, asked)
                plain, asked = [], self.questions.get(revealed[1], "")
            plain.append(cell)
        yield from self._results(plain, asked)

    def _prediction(self, source: str) -> Iterator[Slide]:
        yield from self._flush()
        name, question = re.search(r'(\w+) = course\.predict\(\s*"(.*?)"', source, re.S).groups()  # type: ignore[union-attr]
        self.questions[name] = question
        words = _html("\n\n".join(self.predicting))
        self.predicting = []
        body = f'<div class="given">{words}</div><p class="question">{escape(question)}</p>'
        slide = self._slide("predict", body, self.guide.time("for the prediction"))
        yield replace(slide, question=question)

    def _results(self, cells: Sequence[Mapping[str, Any]], asked: str) -> Iterator[Slide]:
        """Yield what cells printed and drew, with the answer if they reveal a prediction."""
        if not cells:
            return
        source = "\n\n".join(_text(cell["source"]) for cell in cells)
        printed, pictures = [], []
        for cell in cells:
            of_moment = cell.get("metadata", {}).get("ironworks", {}).get("role") == "moment"
            for output in cell.get("outputs", ()):
                if output["output_type"] == "stream":
                    printed += _text(output["text"]).splitlines()
                elif "data" in output:
                    pictures += [(of_moment, p) for p in _pictures(output["data"])]
        lines = [line for line in printed if not line.startswith(UNTOLD)]
        said = _pre("\n".join(lines), "said") if lines else ""
        notes = (_code(source),)
        if asked:
            yield from self._flush()
            answer = self.answers.get(asked)
            value = escape(answer) if answer else "Run the cell: it shows the answer."
            size = "long" if len(value) > 12 else "short"
            body = (
                f'<p class="question">{escape(asked)}</p><p class="value {size}">{value}</p>{said}'
            )
            yield replace(self._slide("answer", body, notes), question=asked)
        elif self.words or said:
            shown = _pre(source, "code") if not said and not pictures and _fits(source) else ""
            words, self.words = _html("\n\n".join(self.words)), []
            yield self._slide("run", words + said + shown, notes)
        for of_moment, (drawn, caption) in pictures:
            more = self.guide.time("main picture") if of_moment else ()
            body = f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"
            yield self._slide("picture", body, (*more, *notes))
            notes = ()

    def _flush(self) -> Iterator[Slide]:
        """Yield the words of a *Run* that no cell follows."""
        if self.words:
            words, self.words = _html("\n\n".join(self.words)), []
            yield self._slide("run", words)

    def _live(self) -> Iterator[Slide]:
        experiments = runpy.run_path(str(ROOT / "docs/live.py"))["EXPERIMENTS"]
        if self.chapter in experiments:
            link = f"../course/{self.chapter}.html#in-this-browser"
            words = _html(experiments[self.chapter].words)
            button = f'<p class="go"><a href="{link}">Open the experiment</a></p>'
            yield Slide("live", "In this browser", words + button)

    def _slide(self, kind: str, body: str, notes: tuple[str, ...] = ()) -> Slide:
        return Slide(kind, self.section, body, notes, self.section)


def _pictures(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the pictures of an output as HTML, each with its caption."""
    words = _text(data.get("text/plain", "")).partition("\n")[0]
    if SVG in data:
        panels = list(_panels(_text(data[SVG])))
        for number, panel in enumerate(panels, 1):
            source = b64encode(_themed(panel).encode()).decode()
            part = f"Part {number} of {len(panels)}. " if len(panels) > 1 else ""
            about = f"{part}{words}"
            image = f'<img alt="{escape(about, quote=True)}" src="data:{SVG};base64,{source}">'
            yield image, about
    elif CHART in data:
        chart = json.dumps({k: data[CHART][k] for k in ("data", "layout")}).replace("</", "<\\/")
        title = data[CHART]["layout"].get("title", {}).get("text", "")
        title = re.sub(r"<[^>]*>", " ", title)
        yield f'<div class="chart"><script type="application/json">{chart}</script></div>', title


def _panels(svg: str) -> Iterator[str]:
    """Yield the drawings of a stack (`widgets.draw.svg.stack_drawings`), as pictures of their own.

    A drawing that is too high for a slide is cut: its beginning is shown.
    """
    head = re.match(r"<svg[^>]*>", svg)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if head is None or size is None:
        yield svg
        return
    width, height = map(float, size.groups())
    tops = [float(y) for y in re.findall(r'<g transform="translate\(0 ([\d.]+)\)">', svg)]
    if tops[:1] != [0.0] or len(tops) < 2:
        tops = [0.0]
    shown = 0
    for top, bottom in zip(tops, [*tops[1:], height]):
        if len(tops) > 1:
            begin = svg.index(f'<g transform="translate(0 {top:g})">')
            after = svg.find(f'<g transform="translate(0 {bottom:g})">', begin)
            body = svg[begin : after if after > 0 else svg.rindex("</svg>")]
            if body.count("<rect") + body.count("<path") < 2:
                continue  # a sentence that says why there is no drawing
            before = svg[head.end() : svg.index('<g transform="translate(0 0)">')]
        else:
            before, body = svg[head.end() : svg.rindex("</svg>")], ""
        tall = min(bottom - top, width * FLATTEST) if len(tops) == 1 else bottom - top
        box = f'viewBox="0 {top:g} {width:g} {tall:g}" width="{width:g}" height="{tall:g}"'
        ground = f'<rect y="{top:g}" width="100%" height="100%" fill="{LIGHT["pane"]}"/>'
        label = 'xmlns="http://www.w3.org/2000/svg" class="pic sized"'
        yield f"<svg {label} {box}>{ground if top else ''}{before}{body}</svg>"
        shown += 1
        if shown == MOST_PANELS:
            return


def _themed(svg: str) -> str:
    """Return a picture whose colours follow the scheme of the page that shows it."""
    names: dict[str, str] = {}
    for token, colour in LIGHT.items():
        if colour.startswith("#"):
            names.setdefault(colour, token)
    begin, end = svg.split(">", 1)
    for colour, token in names.items():
        end = re.sub(rf"{colour}\b", f"var(--{token})", end)
    light, dark = (
        "".join(f"--{token}:{scheme[token]};" for token in names.values())
        for scheme in (LIGHT, DARK)
    )
    rules = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"{begin}><style>{rules}</style>{end}"


def _paragraphs(text: str) -> list[str]:
    return [p for p in re.split(r"\n\s*\n", text.strip()) if p]


def _html(markdown: str) -> str:
    pages = re.sub(r"\]\(\.\./docs/([\w/]+)\.md\)", r"](../\1.html)", markdown)
    return str(mistune.html(pages)).strip()


def _line(markdown: str) -> str:
    """Return a heading, whose number begins no list."""
    line = _html(re.sub(r"^(\w+)\. ", r"\1\\. ", markdown))
    return line.removeprefix("<p>").removesuffix("</p>")


def _lead(markdown: str) -> str:
    """Return words whose first sentence stands out."""
    first = re.match(r"(.{20,220}?[.?:])\s+(?=[A-Z*`])", markdown.replace("\n", " "), re.S)
    if not first:
        return _html(markdown)
    rest = markdown[first.end() :]
    return f'<div class="lead">{_html(first[1])}</div>{_html(rest)}'


def _fits(source: str, most_lines: int = MOST_LINES) -> bool:
    lines = source.strip().splitlines()
    return 0 < len(lines) <= most_lines and max(map(len, lines)) <= MOST_COLUMNS


def _without_imports(stub: str) -> str:
    """Return the lines of a stub that a class reads together."""
    lines = [line for line in stub.splitlines() if not re.match(r"(import|from) ", line)]
    return re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip("\n")


def _pre(text: str, kind: str, most_lines: int = MOST_LINES) -> str:
    """Return lines of text, cut to what a slide holds."""
    lines = [
        line if len(line) <= MOST_COLUMNS else f"{line[: MOST_COLUMNS - 1]}…"
        for line in text.strip("\n").splitlines()
    ]
    if len(lines) > most_lines:
        lines = [*lines[: most_lines - 1], f"… {len(lines) - most_lines + 1} more lines"]
    return f'<pre class="{kind}">{escape(chr(10).join(lines), quote=False)}</pre>'


def _code(source: str) -> str:
    """Return the cell of a slide for its notes, as Markdown."""
    return f"```python\n{source}\n```" if source else ""


def page(deck: Sequence[Slide], chapter: str, recorded: Mapping[str, str]) -> str:
    """Return the slides as one HTML document."""
    parts = {p.name: p.read_text("utf-8") for p in REVEAL.iterdir()}
    title = deck[0].heading
    tokens = "".join(
        f"{selector}{{color-scheme:{name};{_tokens(scheme)}}}"
        for selector, name, scheme in (
            (":root", "light", LIGHT),
            (":root.dark", "dark", DARK),
        )
    )
    has_charts = any('class="chart"' in slide.body for slide in deck)
    sections = "\n".join(_section(slide, chapter, recorded) for slide in deck)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}: slides</title>
<style>{parts["reset.css"]}{parts["reveal.css"]}</style>
<style>{tokens}{STYLE.read_text("utf-8")}</style>
</head>
<body>
<div class="reveal"><div class="slides">
{sections}
</div></div>
<!-- {parts["LICENSE"].strip()} -->
<script>{parts["reveal.js"]}</script>
<script>{parts["notes.js"]}</script>
<script>{parts["zoom.js"]}</script>
{f'<script src="{PLOTLY}"></script>' if has_charts else ""}
<script>{SCRIPT.read_text("utf-8")}</script>
</body>
</html>
"""


def _tokens(scheme: Mapping[str, str]) -> str:
    fonts = "".join(f"--{name}:{font};" for name, font in FONTS.items())
    return fonts + "".join(f"--{name}:{colour};" for name, colour in scheme.items())


LABELS = {
    "idea": "Idea",
    "run": "Run",
    "picture": "Picture",
    "predict": "Predict",
    "answer": "Answer",
    "investigate": "Investigate",
    "modify": "Modify",
    "try": "Try it now",
    "exercise": "Exercise",
    "live": "Experiment",
    "exit": "Exit question",
}


def _section(slide: Slide, chapter: str, recorded: Mapping[str, str]) -> str:
    label = LABELS.get(slide.kind, "Ironworks")
    notes = "".join(_html(note) for note in slide.notes if note)
    foot = ""
    if slide.kind == "title":
        on = "Recorded on {machine}, {day}.".format(**recorded) if recorded else ""
        foot = (
            f"<footer><span>{escape(on)}</span>"
            f'<a href="../course/{chapter}.html">The chapter</a></footer>'
        )
    return (
        f'<section class="{slide.kind}"><div class="page">'
        f'<header><span class="label">{label}</span></header><h2>{_line(slide.heading)}</h2>'
        f'<div class="body">{slide.body}</div>{foot}</div>'
        f'<aside class="notes">{notes}</aside></section>'
    )


def write_slides(recorded: Path, to: Path) -> None:
    """Write the slides of a recorded chapter."""
    notebook = json.loads(recorded.read_text("utf-8"))
    chapter = recorded.stem
    deck = slides(notebook, chapter, read_guide(chapter))
    to.parent.mkdir(parents=True, exist_ok=True)
    text = page(deck, chapter, notebook["metadata"].get("recorded", {}))
    to.write_text(text, encoding="utf-8")
    print(f"{to}: {len(deck)} slides, {len(text) / 1e6:.2f} MB")


def _text(source: Any) -> str:
    """A notebook keeps a text as one, or as its lines."""
    return "".join(source) if isinstance(source, list) else str(source)


if __name__ == "__main__":
    write_slides(Path(sys.argv[1]), Path(sys.argv[2]))
