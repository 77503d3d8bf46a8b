"""The pictures of `docs/gallery.md`, as a reader sees them: `python -m tests.browser.gallery`."""

from __future__ import annotations

import sys
from pathlib import Path

import explorer
from explorer.training.manual_model import manual_model
from tests.browser.driver import chromium_browser
from tests.browser.over_session import house, settle
from widgets.rooms.gallery import find_picture
from widgets.session.handlers import time_shown
from widgets.session.session import Session

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
LIGHT, DARK = "light", "dark"
MANUAL = "manual"  # the language model that is trained on Python's manual
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
    (MANUAL, "cpu"): {"low_bit": LIGHT, "one_token": DARK},
}
MEASURED = ("low_bit", "one_token")
CHOSEN = {"low_bit": ("weights as", "int4 in blocks of 32")}  # a control, and its choice


def compiled(model: str, target: str) -> explorer.Compilation:
    if model != MANUAL:
        return explorer.compile(model, target)
    language = manual_model()
    return explorer.compile(language, target, donate=language.caches)


def main(chromium: str) -> None:
    """Write each picture as NAME.png, an explorer of 1,250 by 820 pixels."""
    FOLDER.mkdir(exist_ok=True)
    with chromium_browser(chromium) as browser:
        for (model, target), pictures in SHOWN.items():
            session = Session(compiled(model, target))
            for name, scheme in pictures.items():
                if name in MEASURED:
                    time_shown(session, find_picture(name), "")
                with house(browser, session, width=1266, height=916, scheme=scheme) as page:
                    for drawer in ("graph", "inspector", "code"):
                        page.evaluate("name => driver.open(name, false)", drawer)
                    page.wait_for_function("!document.querySelector('.house[aria-busy]')")
                    page.evaluate("name => driver.go(name)", name)
                    settle(page)
                    if name in CHOSEN:
                        control, value = CHOSEN[name]
                        page.locator(f"select[aria-label='{control}']").select_option(label=value)
                        settle(page)
                    page.wait_for_timeout(900)
                    page.locator(".house").screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium-headless-shell")
