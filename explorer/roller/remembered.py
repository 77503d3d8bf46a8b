"""Tilings that were found before, on this machine's disk: a warm start weighs nothing again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any

from explorer import cache as store
from explorer.devices.model import Device, text_of_device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical_symbols, text_of
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim, symbols_of
from explorer.roller.cache_sources import FOLDERS
from explorer.roller.named_policies import DEFAULT, POLICIES
from explorer.roller.tiles.order import REFUSED_CANDIDATES


def best_tilings(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
    policy: str = DEFAULT,
) -> tuple[Candidate[Tiling], ...]:
    """What a named policy finds for a kernel under canonical names, best first.

    It knows nothing but the kernel's own symbols, under canonical names too, so other programs with
    the kernel find the same.
    """
    asked = _Question.of(kernel, device, env, sizes, top_k, policy)
    memory = store.memory("roller")
    found: tuple[Candidate[Tiling], ...] | None = memory.get(asked.key)
    if found is None:
        found = _from_disk(asked.key)
        if found is None:
            found = asked.answers()
            _to_disk(asked.key, found)
        memory.put(asked.key, found)
    return found


def best_tiling(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
    policy: str = DEFAULT,
) -> Candidate[Tiling] | None:
    """The first of `best_tilings`, None where there is none. The others are not looked at, but by
    `best_tilings` from where this one stopped.
    """
    asked = _Question.of(kernel, device, env, sizes, top_k, policy)
    key = store.content_key("the first of", asked.key)
    memory = store.memory("roller")
    found: tuple[Candidate[Tiling], ...] | None = memory.get(asked.key) or memory.get(key)
    if found is None:
        found = _from_disk(key)
        if found is None:
            found = asked.first()
            _to_disk(key, found)
        memory.put(key, found)
    return next(iter(found), None)


@dataclass(frozen=True, slots=True)
class _Question:
    """What tilings are asked for, under canonical names."""

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
    ) -> _Question:
        """The same question for every name that symbols can have."""
        kernel, env, values = canonical_symbols(kernel, env)
        sizes = {
            name: evaluate_dim(dim, sizes)
            for name, dim in values.items()
            if symbols_of(dim) <= sizes.keys()
        }
        binding = repr(sorted(sizes.items()))
        parts = (text_of(kernel), text_of_device(device), repr(env), binding, str(top_k), policy)
        key = store.content_key("roller", store.code_key(*FOLDERS), *parts)
        return _Question(key, kernel, device, env, sizes, top_k, policy)

    def weighed(self) -> Iterator[Candidate[Tiling]]:
        """The candidates, each looked at when it is asked for."""
        every = POLICIES[self.policy](self.kernel, self.device, self.env, self.sizes, self.top_k)
        return islice(every, self.top_k + REFUSED_CANDIDATES)

    def first(self) -> tuple[Candidate[Tiling], ...]:
        """The best candidate; the others are kept as a promise."""
        rest = self.weighed()
        found = tuple(islice(rest, 1))
        _promised.put(self.key, _Promise(found, rest, Lock()))
        return found

    def answers(self) -> tuple[Candidate[Tiling], ...]:
        """All of them."""
        promise = _promised.get(self.key)
        kept = None if promise is None else promise.kept()
        return tuple(self.weighed()) if kept is None else kept


@dataclass(slots=True)
class _Promise:
    """Candidates of which some are still to be looked at."""

    found: tuple[Candidate[Tiling], ...]
    rest: Iterator[Candidate[Tiling]] | None  # None: an error ended it
    lock: Lock

    def kept(self) -> tuple[Candidate[Tiling], ...] | None:
        """All of them."""
        with self.lock:
            rest, self.rest = self.rest, None
            if rest is None:
                return None
            self.found, self.rest = (*self.found, *rest), iter(())
            return self.found


_promised: store.Memory[_Promise] = store.Memory(limit_entries=64)


def _to_json(c: Candidate[Tiling]) -> dict[str, Any]:
    t = c.value
    tiling = [t.tile, [t.micro.rows, t.micro.vectors, t.micro.lanes], t.pack, t.depth_block]
    return {"label": c.label, "tiling": tiling, "terms": c.terms, "refused": c.refused}


def _to_disk(key: str, found: tuple[Candidate[Tiling], ...]) -> None:
    store.put(key, json.dumps([_to_json(c) for c in found]).encode(), "search")


def _from_disk(key: str) -> tuple[Candidate[Tiling], ...] | None:
    data = store.get(key)
    return None if data is None else tuple(_candidate(row) for row in json.loads(data))


def _candidate(row: dict[str, Any]) -> Candidate[Tiling]:
    tile, micro, pack, block = row["tiling"]
    tiling = Tiling(tuple((str(a), int(n)) for a, n in tile), Micro(*micro), bool(pack), int(block))
    terms = tuple((str(n), float(us)) for n, us in row["terms"])
    return Candidate(str(row["label"]), tiling, terms, str(row["refused"]))
