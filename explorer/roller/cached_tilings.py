"""A cache of tilings in memory and on disk: a warm start weighs nothing again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any

from explorer import cache as store
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim, symbols_of
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical_symbols, text_of
from explorer.passes.fingerprint import device_key
from explorer.roller.named_policies import DEFAULT, POLICIES
from explorer.roller.tile_order import REFUSED_CANDIDATES


def best_tilings(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
    policy: str = DEFAULT,
) -> tuple[Candidate[Tiling], ...]:
    """Return the tilings that a named policy finds for a kernel under canonical names, best first.

    The key holds the kernel's own symbols only, under canonical names too. So other programs with
    the same kernel find the entry.
    """
    query = _TilingQuery.of(kernel, device, env, sizes, top_k, policy)
    memory = store.memory("roller")
    tilings: tuple[Candidate[Tiling], ...] | None = memory.get(query.key)
    if tilings is None:
        tilings = _from_disk(query.key)
        if tilings is None:
            tilings = query.all_candidates()
            _to_disk(query.key, tilings)
        memory.put(query.key, tilings)
    return tilings


def best_tiling(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
    policy: str = DEFAULT,
) -> Candidate[Tiling] | None:
    """Return the first of `best_tilings`, None if there is none.

    The others are not evaluated; `best_tilings` resumes from where this call stopped.
    """
    query = _TilingQuery.of(kernel, device, env, sizes, top_k, policy)
    key = store.content_key("the first of", query.key)
    memory = store.memory("roller")
    tilings: tuple[Candidate[Tiling], ...] | None = memory.get(query.key) or memory.get(key)
    if tilings is None:
        tilings = _from_disk(key)
        if tilings is None:
            tilings = query.first()
            _to_disk(key, tilings)
        memory.put(key, tilings)
    return next(iter(tilings), None)


@dataclass(frozen=True, slots=True)
class _TilingQuery:
    """A query for tilings under canonical names."""

    key: str
    kernel: Kernel
    device: Device
    env: ShapeEnv
    sizes: Sizes
    top_k: int
    policy: str

    @staticmethod
    def of(
        kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int, policy: str
    ) -> _TilingQuery:
        """Return the query with canonical symbols, the same for all names of symbols."""
        kernel, env, values = canonical_symbols(kernel, env)
        sizes = {
            name: evaluate_dim(dim, sizes)
            for name, dim in values.items()
            if symbols_of(dim) <= sizes.keys()
        }
        binding = repr(sorted(sizes.items()))
        parts = (text_of(kernel), device_key(device), repr(env), binding, str(top_k), policy)
        key = store.content_key("roller", store.code_key(*FOLDERS), *parts)
        return _TilingQuery(key, kernel, device, env, sizes, top_k, policy)

    def weighed(self) -> Iterator[Candidate[Tiling]]:
        """Yield the candidates lazily."""
        every = POLICIES[self.policy](self.kernel, self.device, self.env, self.sizes, self.top_k)
        return islice(every, self.top_k + REFUSED_CANDIDATES)

    def first(self) -> tuple[Candidate[Tiling], ...]:
        """Return the best candidate, and keep the iterator of the others."""
        remaining = self.weighed()
        best = tuple(islice(remaining, 1))
        _partial_results.put(self.key, _PartialResult(best, remaining, Lock()))
        return best

    def all_candidates(self) -> tuple[Candidate[Tiling], ...]:
        """Return all candidates."""
        promise = _partial_results.get(self.key)
        complete = None if promise is None else promise.complete()
        return tuple(self.weighed()) if complete is None else complete


@dataclass(slots=True)
class _PartialResult:
    """Candidates of which some are not evaluated yet."""

    candidates: tuple[Candidate[Tiling], ...]
    remaining: Iterator[Candidate[Tiling]] | None  # None: an error ended it
    lock: Lock

    def complete(self) -> tuple[Candidate[Tiling], ...] | None:
        """Return all candidates; None if an error ended the iteration."""
        with self.lock:
            remaining, self.remaining = self.remaining, None
            if remaining is None:
                return None
            self.candidates, self.remaining = (*self.candidates, *remaining), iter(())
            return self.candidates


_partial_results: store.Memory[_PartialResult] = store.Memory(limit_entries=64)


def _to_json(c: Candidate[Tiling]) -> dict[str, Any]:
    t = c.value
    tiling = [t.tile, [t.micro.rows, t.micro.vectors, t.micro.lanes], t.pack, t.depth_block]
    return {"label": c.label, "tiling": tiling, "terms": c.terms, "refused": c.refused}


def _to_disk(key: str, tilings: tuple[Candidate[Tiling], ...]) -> None:
    store.put(key, json.dumps([_to_json(c) for c in tilings]).encode(), "search")


def _from_disk(key: str) -> tuple[Candidate[Tiling], ...] | None:
    data = store.get(key)
    return None if data is None else tuple(_candidate(row) for row in json.loads(data))


def _candidate(row: dict[str, Any]) -> Candidate[Tiling]:
    tile, micro, pack, block = row["tiling"]
    tiling = Tiling(tuple((str(a), int(n)) for a, n in tile), Micro(*micro), bool(pack), int(block))
    terms = tuple((str(n), float(us)) for n, us in row["terms"])
    return Candidate(str(row["label"]), tiling, terms, str(row["refused"]))


FOLDERS = ("roller", "targets", "tile", "cost", "transforms", "passes", "ir", "ops")
