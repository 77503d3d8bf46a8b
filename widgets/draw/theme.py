"""Every colour, hatch and font of the pictures: light, dark, and for charts on either ground.

No other file picks them (EXPLORER.md, Tokens).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LIGHT: dict[str, str] = {
    "app": "#f5f6f7",
    "pane": "#ffffff",
    "tint": "#e9ecee",
    "line": "#e1e4e7",
    "line2": "#c5cbd0",
    "edge": "#8d969e",
    "base": "#8d969e",
    "ink": "#171b1f",
    "ink2": "#465059",
    "ink3": "#5f6a73",
    "accent": "#b83a05",
    "soft": "#fde9de",
    "ok": "#17704a",
    "bad": "#a3243b",
    "add": "#eef6f1",
    "del": "#f8eef0",
    "k": "#7a3e9d",
    "st": "#2c6e49",
    "fn": "#1f5fa8",
    "f-conv": "#5d99d7",
    "f-matmul": "#8bc9a1",
    "f-elementwise": "#989269",
    "f-reduction": "#b58395",
    "f-layout": "#6ecffc",
    "f-control-flow": "#cec565",
    "f-library-call": "#c2ced6",
    "hatch": "#1b2025",
    "hatch2": "#1b2025",
    "t1": "#30373d",
    "t2": "#75808a",
    "t3": "#b4bcc3",
    "t4": "#ffffff",
    "v0": "#efeaf7",
    "v1": "#c9bbe4",
    "v2": "#7f66b8",
    "v3": "#4a3184",
    "bar": "#171b1f",
    "idle": "#838c94",
    "halo": "rgba(0,0,0,0)",
    "w0": "#171b1f",
    "w1": "#171b1f",
    "w2": "#ffffff",
    "w3": "#ffffff",
}
DARK: dict[str, str] = {
    "app": "#0f1214",
    "pane": "#15191c",
    "tint": "#252b30",
    "line": "#262c31",
    "line2": "#3d454c",
    "edge": "#78838c",
    "base": "#78838c",
    "ink": "#eceff1",
    "ink2": "#b9c1c8",
    "ink3": "#939ea7",
    "accent": "#ff9d6e",
    "soft": "#40261a",
    "ok": "#6fcf9f",
    "bad": "#ff8fa3",
    "add": "#182a21",
    "del": "#2e1c20",
    "k": "#d3a5ee",
    "st": "#8fd3a8",
    "fn": "#8fbcf0",
    "f-conv": "#46a9e4",
    "f-matmul": "#318a77",
    "f-elementwise": "#7c691b",
    "f-reduction": "#804b4c",
    "f-layout": "#2a6073",
    "f-control-flow": "#585d28",
    "f-library-call": "#97a1ae",
    "hatch": "#f2f5f7",
    "hatch2": "#0f1214",
    "t1": "#dfe4e8",
    "t2": "#929da6",
    "t3": "#5b656d",
    "t4": "#15191c",
    "v0": "#3a3152",
    "v1": "#5f4f8c",
    "v2": "#a78fe0",
    "v3": "#ddd0fa",
    "bar": "#b9c1c8",
    "idle": "#78838c",
    "halo": "#15191c",
    "w0": "#eceff1",
    "w1": "#eceff1",
    "w2": "#0f1214",
    "w3": "#0f1214",
}
EITHER: dict[str, str] = LIGHT | {  # transparent ground, for charts inside a page
    "app": "rgba(0,0,0,0)",
    "pane": "rgba(0,0,0,0)",
    "tint": "#15191c",
    "line": "rgba(128,128,128,0.25)",
    "line2": "rgba(128,128,128,0.6)",
    "ink": "#797979",
    "ink2": "#797979",
    "ink3": "#797979",
    "accent": "#d2622f",
    "soft": "rgba(210,98,47,0.16)",
    "bad": "#d6455c",
    "f-conv": "#4a92d4",
    "f-matmul": "#4c9f80",
}
FONTS: dict[str, str] = {
    "ui": '"Inter","Segoe UI","Helvetica Neue",Helvetica,Arial,"Liberation Sans",sans-serif',
    "mono": '"JetBrains Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace',
}
SCHEMES: dict[str, dict[str, str]] = {"light": LIGHT, "dark": DARK}

FAMILIES = (
    "conv",
    "matmul",
    "elementwise",
    "reduction",
    "layout",
    "control flow",
    "library call",
)
TERM_INKS = ("t1", "t2", "t3", "t4")


def family_token(family: str) -> str:
    """Return the token of an operator family's colour, which is also its pattern's name."""
    return "f-" + family.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Hatch:
    """A square tile of a pattern.

    It has a ground (a token, or none), and lines (x1, y1, x2, y2) and dots (x, y, radius) in one
    ink.
    """

    size: float
    ground: str = ""
    ink: str = "hatch"
    width: float = 1.0
    alpha: float = 0.5
    lines: tuple[tuple[float, float, float, float], ...] = ()
    dots: tuple[tuple[float, float, float], ...] = ()


_RISING = ((-1, 1, 1, -1), (0, 5, 5, 0), (4, 6, 6, 4))
_FALLING = ((0, 0, 5, 5), (-1, 4, 1, 6), (4, -1, 6, 1))
HATCHES: dict[str, Hatch] = {
    "f-conv": Hatch(5, "f-conv", "hatch2", lines=_RISING),
    "f-matmul": Hatch(5, "f-matmul"),
    "f-elementwise": Hatch(5, "f-elementwise", dots=((1.3, 1.3, 0.85), (3.8, 3.8, 0.85))),
    "f-reduction": Hatch(5, "f-reduction", lines=((0, 1.5, 5, 1.5), (0, 4, 5, 4))),
    "f-layout": Hatch(5, "f-layout", lines=((1.25, 0, 1.25, 5), (3.75, 0, 3.75, 5))),
    "f-control-flow": Hatch(5, "f-control-flow", lines=((0, 5, 5, 0), (0, 0, 5, 5))),
    "f-library-call": Hatch(5, "f-library-call", "hatch2", 1.6, lines=_FALLING),
    "g-imbalance": Hatch(8, ink="idle", alpha=1, dots=((2, 2, 0.9), (6, 6, 0.9))),
    "g-tail": Hatch(8, ink="idle", alpha=1, lines=((1, 4, 5, 4),)),
    "g-dependency": Hatch(
        8, ink="idle", alpha=1, lines=((0, 8, 8, 0), (-2, 2, 2, -2), (6, 10, 10, 6))
    ),
    "g-barrier": Hatch(
        6, ink="bar", width=1.5, alpha=0.7, lines=((0, 0, 6, 6), (-3, 3, 3, 9), (3, -3, 9, 3))
    ),
    "g-launch": Hatch(8, ink="idle", alpha=1, lines=((1.5, 0, 1.5, 8), (5.5, 0, 5.5, 8))),
    "g-preempted": Hatch(8, ink="idle", alpha=1, lines=((2, 2, 6, 6), (6, 2, 2, 6))),
    "g-library": Hatch(8, ink="idle", alpha=1, lines=((0, 2, 8, 2), (0, 6, 8, 6))),
    "t2": Hatch(4, "t2", "pane", 0.9, 1, lines=((0, 4, 4, 0),)),
    "t3": Hatch(4, "t3", "pane", 1, 1, lines=((2, 0, 2, 4),)),
    "pad": Hatch(
        4, ink="ink2", width=0.9, alpha=1, lines=((0, 4, 4, 0), (-1, 1, 1, -1), (3, 5, 5, 3))
    ),
}


# Marks of a notebook page's theme: JupyterLab, VS Code, Colab. canvas/paint.js watches these.
THEMED = (
    "[data-jp-theme-light]",
    ":is(.vscode-light,.vscode-dark,.vscode-high-contrast)",
    "html[theme]",
    "colab-lumino-adapter",  # around a widget of Colab, whose light theme has no mark
)
THEMED_DARK = (
    '[data-jp-theme-light="false"]',
    ":is(.vscode-dark,.vscode-high-contrast:not(.vscode-high-contrast-light))",
    'html[theme="dark"]',
)


def css() -> str:
    """Return the tokens as CSS variables of `.ironworks`.

    Light is the default. Dark applies in a dark notebook, on a dark system, or by class.
    """
    dark = "color-scheme:dark;" + _declarations(DARK)  # the page's own scroll bars and lists too
    fonts = "".join(f"--{name}:{stack};" for name, stack in FONTS.items())
    # A class on the house wins, then the notebook's theme, then the system.
    system = f".ironworks:not(.light):not(:is({','.join(THEMED)}) *)"
    notebook = f":is({','.join(THEMED_DARK)}) .ironworks:not(.light)"
    return (
        f".ironworks{{color-scheme:light;{_declarations(LIGHT)}{fonts}}}\n"
        f"@media (prefers-color-scheme:dark){{{system}{{{dark}}}}}\n"
        f"{notebook},.ironworks.dark{{{dark}}}\n"
    )


def _declarations(tokens: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in tokens.items())


def pattern_defs(prefix: str = "p-") -> str:
    """Return the hatches as SVG patterns, named `<prefix><hatch>`, in CSS variables."""
    return "".join(_pattern(prefix + name, hatch) for name, hatch in HATCHES.items())


def _pattern(name: str, hatch: Hatch) -> str:
    ground = (
        f'<rect width="{hatch.size}" height="{hatch.size}" fill="var(--{hatch.ground})"/>'
        if hatch.ground
        else ""
    )
    path = "".join(f"M{a} {b}L{c} {d}" for a, b, c, d in hatch.lines)
    ink = f'stroke="var(--{hatch.ink})" stroke-opacity="{hatch.alpha}" stroke-width="{hatch.width}"'
    lines = f'<path d="{path}" fill="none" {ink}/>' if path else ""
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="{r}" fill="var(--{hatch.ink})" '
        f'fill-opacity="{hatch.alpha}"/>'
        for x, y, r in hatch.dots
    )
    return (
        f'<pattern id="{name}" width="{hatch.size}" height="{hatch.size}" '
        f'patternUnits="userSpaceOnUse">{ground}{lines}{dots}</pattern>'
    )


def resolve_variables(text: str, scheme: str = "light") -> str:
    """Replace each CSS variable in the text by its value, for files that stand alone."""
    tokens = SCHEMES[scheme] | {name: stack.replace('"', "'") for name, stack in FONTS.items()}
    return re.sub(r"var\(--([\w-]+)\)", lambda m: tokens[m.group(1)], text)
