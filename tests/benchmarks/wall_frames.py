"""How smoothly the brick wall pans in Chromium without a GPU, and what is sent for it.

    python -m tests.benchmarks.wall_frames [--bricks 1000000] [--units 2,64,480] [--seconds 3]

A row is one zoom of one wall, planned over measured: the time between frames while it pans by a
hundredth of the view each frame, as frames a second (median, 99 % interval of it, and the slowest
twentieth), what a frame costs to draw, and the bytes of the largest answer for one view, both walls
together. "whole" is the first view, with all that the page begins with.
"""

from __future__ import annotations

import argparse

import numpy as np

from explorer.measure.compare import median_interval
from tests.browser.driver import chromium_browser
from tests.browser.over_session import house
from tests.conftest import find_chromium
from tests.widgets import many_bricks

ZOOMS = (("whole", 1.0), ("1/10", 0.1), ("1/100", 0.01), ("1/1,000", 1e-3), ("1/10,000", 1e-4))
PAN = """([seconds]) => new Promise(done => {
  const times = [], wall = driver.wall, begun = performance.now();
  wall.stats.draws.length = 0;
  const frame = now => {
    times.push(now);
    if (now - begun > seconds * 1000) { done([times, wall.stats.draws.slice()]); return; }
    if (wall.view) wall.pan(0.01); else wall.draw();
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


def rows(units: int, bricks: int, seconds: float) -> None:
    """Print the rows of one wall."""
    session = many_bricks.session(units, bricks)
    first = sum(map(len, session.buffers().values()))
    chromium = find_chromium()
    assert chromium, "there is no Chromium: set $IRONWORKS_CHROMIUM"
    with chromium_browser(chromium) as browser, house(browser, session) as page:
        for name, share in ZOOMS:
            view = "null" if share == 1 else f"[t * 0.4, t * (0.4 + {share})]"
            total = session.walls.planned.total_us if session.walls.planned else 0.0
            page.evaluate("sent.length = 0")
            page.evaluate(f"(() => {{ const t = {total}; driver.wall.view = {view}; }})()")
            page.wait_for_timeout(800)
            times, draws = page.evaluate(PAN, [seconds])
            sent = page.evaluate("sent")
            _row(units, bricks, name, np.diff(times), np.array(draws), sent, first)


def _row(
    units: int,
    bricks: int,
    name: str,
    between: np.ndarray,
    draws: np.ndarray,
    sent: list[int],
    first: int,
) -> None:
    found, slow = median_interval(between.tolist()), float(np.percentile(between, 95))
    largest = 2 * max(sent) if sent else first if name == "whole" else 0
    print(
        f"{units:5d} units {bricks:9,d} bricks  {name:>8}  {1e3 / found.median:5.1f} frames/s "
        f"({1e3 / found.high:.1f} to {1e3 / found.low:.1f}; slowest 5 %: {1e3 / slow:.1f})  "
        f"{np.median(draws):5.1f} ms to draw  {largest / 1e3:6.0f} kB a view, {len(sent)} slices",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    """Every wall that was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--bricks", type=int, default=1_000_000)
    parser.add_argument("--units", default="2,64,480")
    parser.add_argument("--seconds", type=float, default=3.0)
    flags = parser.parse_args(arguments)
    for units in map(int, flags.units.split(",")):
        rows(units, flags.bricks, flags.seconds)


if __name__ == "__main__":
    main()
