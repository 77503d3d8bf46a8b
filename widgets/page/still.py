"""The still picture of a live page, as HTML: what a saved notebook shows without a kernel.

It stands above the live page and hides it, or the front end's message that its model is not found,
until the page's script hides the picture (canvas/still.js).
"""

from __future__ import annotations

from base64 import b64encode
from html import escape

NAME = "ironworks-still"
HOW = "A still picture: run the cell to explore it."
OWN = f"> .jp-OutputArea-output > .{NAME}"  # not one in an Output inside
STYLE = f"""
.jp-OutputArea-child:has({OWN}:not([hidden])) + .jp-OutputArea-child,
.jp-OutputArea-child:has({OWN}[hidden]) {{ display: none }}
.{NAME} img {{ display: block; max-width: 100%; background: #fff }}
.{NAME} p, .{NAME} summary {{ font: 13px/1.5 system-ui, sans-serif; margin: 4px 0 }}
"""


def still_html(model_id: str, drawing: str, words: str) -> str:
    """Return a drawing as an image, its description, and its table behind a fold."""
    source = b64encode(drawing.encode()).decode()
    head, _, table = words.partition("\n")
    image = f'<img alt="{escape(head)}" src="data:image/svg+xml;base64,{source}">'
    folded = f"<details><summary>Table</summary><pre>{escape(table)}</pre></details>"
    shown = f"{image}<p>{HOW}</p>{folded if table else ''}"
    return f'<div class="{NAME}" data-of="{escape(model_id)}"><style>{STYLE}</style>{shown}</div>'
