"""The chapters of the course as pages of the site, what a reader of the notebooks reads, unrun; and
the glossary, which pages of Ironworks tell on hover.

MkDocs calls `on_files` while it builds (`hooks` in mkdocs.yml), so that no copy of a chapter lies
beside its notebook, nor one of the glossary.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
GLOSSARY = Path(__file__).parents[1] / "widgets/model/glossary.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/, with `course/` and the glossary beside them."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, f"course/{name}.md", content=text))
    words = GLOSSARY.read_text("utf-8")
    files.append(File.generated(config, GLOSSARY.name, content=words))
    return files


def pages() -> dict[str, str]:
    """The teacher's guide and each chapter, by the name of its page."""
    chapters = {path.stem: chapter(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    return {"teaching": (NOTEBOOKS / "TEACHING.md").read_text("utf-8"), **chapters}


def chapter(notebook: Path) -> str:
    """Words as they are, cells as code: they show something where they can run."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    first, *rest = [_page(cell) for cell in cells]
    make = f"make lab NOTEBOOK=notebooks/{notebook.name}"
    run = f"*`{make}` runs this chapter, with its pictures.*"
    return "\n\n".join([first, run, *rest]) + "\n"


def _page(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    return source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
