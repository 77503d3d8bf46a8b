"""Welding raced: models welded, unwelded, in onnxruntime, PyTorch eager and compiled, each model in
one run.

    python -m explorer.tuning.races.weld_race [--models swin,bert.onnx] [--threads 2] [--seconds S]
                                        [--against onnxruntime,torch] [--partial FILE] [--json]

Unwelded means every operator its own kernel, from the same generator. PyTorch runs in its fastest
form (`torch_forms`). Each model has a process of its own. Rows go to the partial file as they are
made, and those that are there are not made again. Paper: Shi et al. 2023, Welder, section 5.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from explorer.frontends import zoo
from explorer.frontends.zoo.entries import WELDER
from explorer.tuning.races.rows import Race, mean, over_others
from explorer.tuning.races.weld_row import AGAINST, WeldRow

PAPER = tuple(e.name for e in WELDER if not e.name.startswith(zoo.SMALL))
MIB = 1 << 20


def summary(rows: Sequence[WeldRow]) -> dict[str, object]:
    """Geometric means over the models, the least and the greatest, and who is behind."""
    welding = {r.model: r.welding.ratio for r in rows}
    return over_others(rows) | {
        "welded_over_unwelded": mean(welding),
        "greatest_welding": max(welding.values(), default=None),
        "dram_bytes_unwelded_over_welded": mean(
            {r.model: r.unwelded.dram_bytes / max(1, r.welded.dram_bytes) for r in rows}
        ),
    }


def line(row: WeldRow) -> str:
    """A row in a line."""
    times = ", ".join(f"{t.name} {t.median_us / 1e3:.2f}" for t in row.times)
    best = row.ratio
    ratio = f"{best.ratio:.2f}x {row.fastest_other}" if best else "nobody else ran"
    moved = [m.dram_bytes / MIB for m in (row.unwelded, row.welded)]
    return (
        f"{row.model}: {times} ms; {ratio}; welding {row.welding.ratio:.2f}x, "
        f"{row.unwelded.kernels} to {row.welded.kernels} kernels, "
        f"{moved[0]:.0f} to {moved[1]:.0f} MiB of DRAM modelled"
    )


WELD_RACE = Race(
    "weld_race",
    "explorer.tuning.races.weld_row",
    PAPER,
    AGAINST,
    WeldRow.read,
    line,
    summary,
)


def main(given: Sequence[str] | None = None) -> int:
    """The command; see `Race.main`."""
    return WELD_RACE.main(given)


if __name__ == "__main__":
    sys.exit(main())
