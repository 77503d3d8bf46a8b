"""The pictures of `docs/gallery.md`, as a reader sees them: `python -m tests.browser.gallery`."""

from __future__ import annotations

import sys
from pathlib import Path

import explorer
from tests.browser.driver import chromium_browser
from tests.browser.over_session import house, settle
from widgets.session.session import Session

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
LIGHT, DARK = "light", "dark"
SHOWN = {  # by model and device: pictures and the scheme of each
    ("zoo:tiny_bert", "cpu"): {
        "rammer": DARK,
        "roller": LIGHT,
        "welder": LIGHT,
        "groups": DARK,
        "staircase": LIGHT,
        "roofline": LIGHT,
        "policies": DARK,
        "layers": LIGHT,
        "fusion": LIGHT,
        "calls": DARK,
        "heap": LIGHT,
        "relax": LIGHT,
        "memory": DARK,
        "flow": LIGHT,
        "lines": DARK,
        "accept": LIGHT,
    },
    ("zoo:small_llama", "cpu"): {"grinder": LIGHT, "crossing": DARK},
    ("zoo:tiny_bert", "v100"): {"banks": LIGHT, "search": DARK},
}


def main(chromium: str) -> None:
    """Write each picture as NAME.png, an explorer of 1,250 by 820 pixels."""
    FOLDER.mkdir(exist_ok=True)
    with chromium_browser(chromium) as browser:
        for (model, target), pictures in SHOWN.items():
            session = Session(explorer.compile(model, target))
            for name, scheme in pictures.items():
                with house(browser, session, width=1266, height=916, scheme=scheme) as page:
                    for drawer in ("graph", "inspector", "code"):
                        page.evaluate("name => driver.open(name, false)", drawer)
                    page.wait_for_function("!document.querySelector('.house[aria-busy]')")
                    page.evaluate("name => driver.go(name)", name)
                    settle(page)
                    page.wait_for_timeout(900)
                    page.locator(".house").screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium-headless-shell")
