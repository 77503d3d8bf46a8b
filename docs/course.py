"""The chapters of the course as pages of the site: what a reader of the notebooks reads, with what
each cell gave when `make docs` ran it, and no kernel; and the glossary, which pages of Ironworks
tell on hover.

MkDocs calls `on_files` while it builds (`hooks` in mkdocs.yml), so that no copy of a chapter lies
beside its notebook, nor one of the glossary.
"""

from __future__ import annotations

import json
import runpy
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
RECORDED = ROOT / "build/course"  # the same notebooks with outputs: docs/record.py
LIVE = ROOT / "build/live"  # the programs of each chapter: docs/live.py
SLIDES = ROOT / "build/slides"  # docs/slides.py
GLOSSARY = ROOT / "widgets/model/glossary.md"
CHART = "application/vnd.plotly.v1+json"
CONTROL = "application/vnd.jupyter.widget-view+json"  # which a page without a kernel leaves out
STILL = "ironworks-still"  # the class of what a notebook keeps of a live page
MOST_ROWS = 40  # of a chart's table
SCRIPT = "plotly.min.js"
TO_PAGES = ("](../docs/", "](../")  # links of notebooks/ to docs/, in the site
LIVE_SCRIPT, LIVE_STYLE = "live.js", "live.css"  # of all chapters
SLIDES_WORDS = """# Slides

Each chapter has slides: its ideas, its pictures as they were recorded, its questions, and its small
exercises. The answer of a prediction is on the slide after its question, and the exit question is
the last slide. They are made from the notebooks, by `make slides`.

A file holds all of its slides and asks nothing of a network; only charts are drawn by a script of
this site. The keys are those of [reveal.js](https://revealjs.com): the arrows go from slide to
slide, `S` opens the speaker's notes, `O` shows all slides, `F` fills the screen, `B` pauses, `?`
lists the keys, and `T` changes between light and dark. Alt and a click (on Linux Ctrl and a click)
zooms into a picture, and out again. With `?print-pdf` after the file's name, the browser prints the
slides. The notes have the minutes of each part, what students can do after the chapter, the common
mistakes of its exercise, and the cell behind each picture.
"""
STYLE = """<style>
.said, .picture pre { overflow-x: auto; font-size: .72em; line-height: 1.35; white-space: pre; }
figure.picture.picture { display: block; margin: 1em 0; width: 100%; max-width: none; }
figure.picture.picture { text-align: left; }
figure.picture.picture summary { text-align: left; }
figure.picture.picture img { display: block; margin: 0; max-width: 100%; background: #fff; }
</style>"""
DRAW = """<script>
for (const chart of document.querySelectorAll(".chart")) {
  const { data, layout } = JSON.parse(chart.querySelector("script").textContent);
  Plotly.newPlot(chart, data, layout, { responsive: true });
}
</script>"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/, with `course/`, what draws its charts, and the glossary beside them."""
    from mkdocs.structure.files import File
    from plotly.offline import get_plotlyjs

    for name, text in pages().items():
        files.append(File.generated(config, f"course/{name}.md", content=text))
    files.append(File.generated(config, f"course/{SCRIPT}", content=get_plotlyjs()))
    for name, text in live_files().items():
        files.append(File.generated(config, f"course/{name}", content=text))
    for path in SLIDES.glob("*.html"):
        deck = path.read_text("utf-8")
        files.append(File.generated(config, f"slides/{path.name}", content=deck))
    words = GLOSSARY.read_text("utf-8")
    files.append(File.generated(config, GLOSSARY.name, content=words))
    return files


def pages() -> dict[str, str]:
    """The teacher's guide and each chapter, by the name of its page: as it was recorded, if it was
    recorded as it is now.
    """
    chapters = {path.stem: chapter(_latest(path), path.name) for path in _notebooks()}
    chapters = {name: text.replace(*TO_PAGES) for name, text in chapters.items()}
    titles = {name: _title(text) for name, text in chapters.items()}
    chapters = {name: f"{text}{live_section(name)}" for name, text in chapters.items()}
    guide = (NOTEBOOKS / "TEACHING.md").read_text("utf-8").replace(*TO_PAGES)
    return {"teaching": guide, "slides": slides_page(titles), **chapters}


def slides_page(titles: Mapping[str, str]) -> str:
    """Return the list of all slides, by the titles of their chapters."""
    lines = [
        f'- <a href="../slides/{name}.html">{escape(title)}</a>'
        if _has_slides(name)
        else f"- {title}: `make slides` makes them"
        for name, title in titles.items()
    ]
    return f"{SLIDES_WORDS}\n" + "\n".join(lines) + "\n"


def _has_slides(name: str) -> bool:
    return (SLIDES / f"{name}.html").exists()


def _title(page: str) -> str:
    return page.partition("\n")[0].lstrip("# ")


def live_files() -> dict[str, str]:
    """The script and the style that all live chapters share, and the programs of each, by name."""
    from widgets.live.scripts import page_script, panel_styles
    from widgets.page.front_end import styles

    programs = {f"{path.stem}.live.js": path.read_text("utf-8") for path in LIVE.glob("*.js")}
    if not programs:
        return {}
    return {LIVE_SCRIPT: page_script(), LIVE_STYLE: styles() + panel_styles(), **programs}


def live_section(name: str) -> str:
    """The experiment of a chapter, "" where `make docs` did not write its programs."""
    if not (LIVE / f"{name}.js").exists():
        return ""
    experiments = runpy.run_path(str(ROOT / "docs/live.py"))
    root, words = experiments["ROOT"], experiments["EXPERIMENTS"][name].words
    return f"""
## In this browser

{words}

<link rel="stylesheet" href="{LIVE_STYLE}">
<div class="ironworks"><section class="room live-page" id="{root}" aria-label="In this browser">
<noscript>Running in this browser needs a script.</noscript></section></div>
<script src="{LIVE_SCRIPT}"></script>
<script src="{name}.live.js"></script>
"""


def _notebooks() -> list[Path]:
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def _latest(path: Path) -> dict[str, Any]:
    now: dict[str, Any] = json.loads(path.read_text("utf-8"))
    recorded = RECORDED / path.name
    if not recorded.exists():
        return now
    ran: dict[str, Any] = json.loads(recorded.read_text("utf-8"))
    same = [_text(c["source"]) for c in ran["cells"]] == [_text(c["source"]) for c in now["cells"]]
    return ran if same else now


def chapter(notebook: Mapping[str, Any], file: str) -> str:
    """Words as they are, cells as code, and below each what it gave."""
    first, *rest = notebook["cells"]
    parts = [_text(first["source"]), _how_it_ran(notebook["metadata"], file), STYLE]
    for cell in rest:
        parts += _cell(cell)
    if any('class="chart"' in part for part in parts):
        parts += [f'<script src="{SCRIPT}"></script>', DRAW]
    return "\n\n".join(parts) + "\n"


def _how_it_ran(metadata: Mapping[str, Any], file: str) -> str:
    run = f"*`make lab NOTEBOOK=notebooks/{file}` runs this chapter, with its pictures.*"
    name = file.removesuffix(".ipynb")
    if _has_slides(name):
        run += f' <a href="../slides/{name}.html">Slides of this chapter</a>'
    if "recorded" not in metadata:
        return run
    on = "What stands under a cell here was recorded, on {machine}, {day}: times are that machine's"
    return f"*{on.format(**metadata['recorded'])}, and pictures stand still.* {run}"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    text = _text(cell["source"])
    if cell.get("metadata", {}).get("ironworks", {}).get("role") == "text":
        return  # room for a student's answer
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    said = ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            said += _text(output["text"])
            continue
        if said:
            yield _said(said)
            said = ""
        if "data" in output:
            yield shown({kind: _text(data) for kind, data in output["data"].items()})
    if said:
        yield _said(said)


def shown(data: Mapping[str, Any]) -> str:
    """One output without a kernel: a picture or a chart with its table, or words."""
    if STILL in data.get("text/html", ""):
        return ""  # the live page's own bundle has it, too
    words = str(data.get("text/plain", ""))
    chart = data.get(CHART)
    if "image/svg+xml" in data:
        source = b64encode(data["image/svg+xml"].encode()).decode()
        about = escape(words.partition("\n")[0])
        drawn = f'<img alt="{about}" src="data:image/svg+xml;base64,{source}">'
        return _picture(drawn, words)
    if chart:
        told = json.dumps({"data": chart["data"], "layout": chart["layout"]}).replace("</", "<\\/")
        drawn = f'<div class="chart"><script type="application/json">{told}</script></div>'
        return _picture(drawn, "\n".join(_rows(chart["data"])))
    return "" if CONTROL in data else _said(words)


def _picture(drawn: str, table: str) -> str:
    inside = f"<details><summary>Table</summary><pre>{_unbroken(table)}</pre></details>"
    return f'<figure class="picture">{drawn}{inside}</figure>'


def _said(text: str) -> str:
    return f'<pre class="said">{_unbroken(text.rstrip())}</pre>'


def _unbroken(text: str) -> str:
    """Escaped, and without an empty line, which would end HTML that stands in Markdown."""
    return escape(text, quote=False).replace("\n\n", "\n&#10;").replace("\n\n", "\n&#10;")


def _rows(traces: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What a chart draws, trace by trace: a line for each of its points."""
    for trace in traces:
        yield str(trace.get("name") or trace.get("type", ""))
        xs, ys = _numbers(trace.get("x")), _numbers(trace.get("y"))
        yield from (f"  {x}  {y}" for x, y in list(zip(xs, ys))[:MOST_ROWS])
        if len(xs) > MOST_ROWS:
            yield f"  … and {len(xs) - MOST_ROWS} more"


def _numbers(values: Any) -> list[Any]:
    """An axis of a trace, which may be packed."""
    if isinstance(values, Mapping) and "bdata" in values:
        return np.frombuffer(b64decode(values["bdata"]), values["dtype"]).tolist()  # type: ignore[no-any-return]
    return list(values or ())


def _text(source: Any) -> Any:
    """A notebook keeps a text as one, or as its lines."""
    return "".join(source) if isinstance(source, list) else source
