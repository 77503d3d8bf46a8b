"""Rows of a sweep: the results of one point with the card of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from explorer.cache import content_key
from explorer.measure.machine import machine

MEASURED, SIMULATED, FAILED = "measured", "simulated", "failed"
BIND = "bind."  # prefix of the names of symbolic dims
KINDS = (MEASURED, SIMULATED, FAILED)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The result of one point.

    `kind`: "measured" (`median_us` with its 99 % interval), "simulated" (`predicted_us` of a data
    sheet), or "failed" for the `reason`. `machine` is the digest of `card`, the machine that the
    row was made on: rows of different machines are never compared. `predicted_us` is the planned
    wall's, `arena_bytes` the memory between kernels, `compile_seconds` the compilation's time
    there, from caches or not.
    """

    key: str
    model: str
    varied: tuple[tuple[str, str], ...]
    kind: str
    machine: str
    card: str
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    runs: int = 0
    predicted_us: float | None = None
    kernels: int = 0
    arena_bytes: int = 0
    compile_seconds: float = 0.0
    reason: str = ""

    @property
    def us(self) -> float | None:
        """The time of a run: measured, else predicted."""
        return self.predicted_us if self.median_us is None else self.median_us

    @property
    def sizes(self) -> str:
        """The varied sizes: "seq=64, batch=1 on ", or ""."""
        bindings = [f"{n.removeprefix(BIND)}={t}" for n, t in self.varied if n.startswith(BIND)]
        return f"{', '.join(bindings)} on " if bindings else ""

    @property
    def words(self) -> str:
        """The result in a few words."""
        if self.kind == FAILED:
            return self.reason
        if self.median_us is None:
            return f"{self.predicted_us:,.1f} us, predicted"
        return f"{self.median_us:,.1f} us ({self.low_us:,.1f} to {self.high_us:,.1f})"

    def to_json(self) -> dict[str, Any]:
        """Return the row in JSON types."""
        return {**asdict(self), "varied": [list(pair) for pair in self.varied]}


def row_of(data: object) -> SweepRow:
    """Return the row that `to_json` serialised; ValueError for other data."""
    if not isinstance(data, Mapping) or data.keys() != {f.name for f in fields(SweepRow)}:
        raise ValueError("a row has other fields")
    varied = data["varied"]
    pairs = isinstance(varied, list) and all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(t, str) for t in p) for p in varied
    )
    texts = all(isinstance(data[n], str) for n in ("key", "model", "machine", "card", "reason"))
    numbers = all(
        data[f.name] is None or (isinstance(data[f.name], int | float))
        for f in fields(SweepRow)
        if f.name.endswith(("_us", "_bytes", "_seconds")) or f.name in ("runs", "kernels")
    )
    if not (pairs and texts and numbers and data["kind"] in KINDS):
        raise ValueError("a row has other values")
    return SweepRow(**{**data, "varied": tuple((a, b) for a, b in varied)})


def here() -> tuple[str, str]:
    """Return the digest and the text of this machine's card."""
    card = str(machine())
    return content_key("machine", card)[:16], card
