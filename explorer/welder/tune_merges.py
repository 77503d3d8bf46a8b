"""The best tile of a group by a policy's search, cached by the group's canonical kernel.

The cache is in memory, and on disk for other processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from explorer import cache as store
from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.cost.footprint import points
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, canonical_symbols, text_of
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.passes.fingerprint import device_key
from explorer.welder.groups import Facts
from explorer.welder.tiles.plan import operations
from explorer.welder.tiles.reduce_steps import no_room
from explorer.welder.tiles.sized_tile import SizedTile

FOLDERS = ("welder", "roller", "targets", "tile", "cost", "transforms", "passes", "ir", "ops")
Search = Callable[[Kernel, Device], Sequence[SizedTile] | Refusal]  # of a kernel of fixed extents


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best tile of a group by the model, and the others that were weighed, best first."""

    us: float
    best: SizedTile
    weighed: tuple[Candidate[SizedTile], ...] = ()

    @property
    def cut(self) -> tuple[tuple[str, int], ...]:
        """The sizes by axis of the output."""
        return self.best.tile


def tune(kernel: Kernel, facts: Facts, search: Search, name: str) -> Tuned | Refusal:
    """Return the result of the search for a kernel, or the refusal if no tile fits or is legal.

    Equal kernels are searched once, whatever the names of their tensors and symbols.
    """
    named, axes = canonical(normalise(kernel))
    query, env, values = canonical_symbols(named, facts.env)
    hints = {name: facts.env.hint(dim) for name, dim in values.items()}
    parts = (name, text_of(query), repr(env), repr(sorted(hints.items())))
    key = store.content_key(
        "welder", store.code_key(*FOLDERS), *parts, device_key(facts.device), repr(facts.price)
    )
    memory = store.memory("welder")
    result: Tuned | Refusal | None = memory.get(key)
    if result is None:
        result = _from_disk(key)
        if result is None:
            result = _run_search(query, replace(facts, env=env), search)
            store.put(key, json.dumps(_to_json(result)).encode(), "search")
        memory.put(key, result)
    return _with_axes(result, {new: old for old, new in axes.items()})


def _run_search(kernel: Kernel, facts: Facts, search: Search) -> Tuned | Refusal:
    bound = bind_kernel(kernel, sizes_of(kernel, facts.env))
    tiles = search(bound, facts.device)
    if isinstance(tiles, Refusal):
        return tiles
    if not any(s.fits for s in tiles):
        return no_room(tiles, facts.device)
    order = sorted(
        (
            Candidate(_label(s), s, (("time", latency_us(bound, s, facts)),))
            for s in tiles
            if s.fits
        ),
        key=lambda c: c.cost_us,
    )
    weighed = _legal_first(order, kernel, bound, facts)
    best = weighed[0]
    if best.refused:
        text = f"none of {len(weighed)} tiles is legal: {best.refused}"
        return Refusal("tiling", 0, 1, text)
    return Tuned(best.cost_us, best.value, tuple(weighed))


def _legal_first(
    order: list[Candidate[SizedTile]], kernel: Kernel, bound: Kernel, facts: Facts
) -> list[Candidate[SizedTile]]:
    """Return the best legal tile, then those no better, then better ones that are illegal."""
    refused: list[Candidate[SizedTile]] = []
    for n, c in enumerate(order):
        refines = target_of(facts.device).refines_tiles
        why = facts.price.allows(kernel, facts.env, c.value.cut_of(bound)) if refines else ""
        if not why:
            return [c, *order[n + 1 :], *refused]
        refused.append(replace(c, refused=why))
    return refused


def _label(s: SizedTile) -> str:
    return " ".join(f"{a}={n}" for a, n in s.tile) or "whole"


def latency_us(bound: Kernel, s: SizedTile, facts: Facts) -> float:
    """Return the modelled time of a kernel under a tile.

    It is Roller's where that refines inside of the tile, else the longest of computing and moving,
    over the share of the units that is used.
    """
    if target_of(facts.device).refines_tiles:
        return facts.price.tiled(bound, ShapeEnv(), s.cut_of(bound))
    tile = dict(s.tile)
    done = points(bound, propagate(bound, tile), tile)
    work = sum(n * operations(c.expr) for n, c in zip(done, bound.computes, strict=True))
    device = facts.device
    computing = work / (device.reached_gflops_per_unit * device.units * 1e3)
    moving = s.moved_bytes / (device.all_gb_per_s(device.levels[-1]) * 1e3)
    return max(computing, moving) / max(1e-9, s.used(device)) + device.launch_us


def _with_axes(result: Tuned | Refusal, names: dict[str, str]) -> Tuned | Refusal:
    if isinstance(result, Refusal):
        return result
    weighed = tuple(
        replace(c, value=c.value.renamed(names)) if isinstance(c.value, SizedTile) else c
        for c in result.weighed
    )
    return Tuned(result.us, result.best.renamed(names), weighed)


def _to_json(result: Tuned | Refusal) -> dict[str, Any]:
    if isinstance(result, Refusal):
        return {"refusal": asdict(result)}
    rows = [[c.label, asdict(c.value), c.terms, c.refused] for c in result.weighed]
    return {"us": result.us, "best": asdict(result.best), "weighed": rows}


def _from_disk(key: str) -> Tuned | Refusal | None:
    data = store.get(key)
    if data is None:
        return None
    row = json.loads(data)
    if "refusal" in row:
        return Refusal(**row["refusal"])
    weighed = tuple(
        Candidate(str(label), _sized(s), tuple((str(n), float(us)) for n, us in terms), str(why))
        for label, s, terms, why in row["weighed"]
    )
    return Tuned(float(row["us"]), _sized(row["best"]), weighed)


def _sized(row: dict[str, Any]) -> SizedTile:
    pairs = {k: tuple((str(a), int(n)) for a, n in row[k]) for k in ("tile", "steps")}
    return SizedTile(**{**row, **pairs})
