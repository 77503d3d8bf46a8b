"""Tilings that were found before, on this machine's disk: a warm start weighs nothing again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from explorer import cache as store
from explorer.devices.model import Device
from explorer.ir.canonical import canonical_symbols
from explorer.ir.decisions import Candidate, Micro, Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.roller.policies import DEFAULT, POLICIES
from explorer.roller.policy import REFUSED

FOLDERS = ("roller", "cost", "ir")


def best_tilings(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
    policy: str = DEFAULT,
) -> tuple[Candidate, ...]:
    """What a named policy finds for a kernel under canonical names, best first.

    It knows nothing but the kernel's own symbols, under canonical names too, so other programs with
    the kernel find the same.
    """
    kernel, env, names = canonical_symbols(kernel, env)
    sizes = {new: sizes[old] for old, new in names.items() if old in sizes}
    binding = repr(sorted(sizes.items()))
    parts = (rules(), text_of(kernel), repr(device), repr(env), binding, str(top_k), policy)
    key = store.content_key("roller", *parts)
    memory = store.memory("roller")
    found: tuple[Candidate, ...] | None = memory.get(key)
    if found is None:
        found = _from_disk(key)
        if found is None:
            every = POLICIES[policy](kernel, device, env, sizes, top_k)
            found = tuple(islice(every, top_k + REFUSED))
            store.put(key, json.dumps([_to_json(c) for c in found]).encode())
        memory.put(key, found)
    return found


def text_of(kernel: Kernel) -> str:
    """All of a kernel as text, the same in every process: a set is printed in any order."""
    return f"{sorted(kernel.constants)} {replace(kernel, constants=frozenset())}"


@cache
def rules() -> str:
    """A hash of the code that decides: another policy or model finds its own tilings."""
    digest = hashlib.blake2b(digest_size=16)
    root = Path(__file__).parent.parent
    for folder in FOLDERS:
        for file in sorted((root / folder).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _to_json(c: Candidate) -> dict[str, Any]:
    assert isinstance(c.value, Tiling)
    t = c.value
    tiling = [t.tile, [t.micro.rows, t.micro.vectors, t.micro.lanes], t.pack, t.depth_block]
    return {"label": c.label, "tiling": tiling, "terms": c.terms, "refused": c.refused}


def _from_disk(key: str) -> tuple[Candidate, ...] | None:
    data = store.get(key)
    return None if data is None else tuple(_candidate(row) for row in json.loads(data))


def _candidate(row: dict[str, Any]) -> Candidate:
    tile, micro, pack, block = row["tiling"]
    tiling = Tiling(tuple((str(a), int(n)) for a, n in tile), Micro(*micro), bool(pack), int(block))
    terms = tuple((str(n), float(us)) for n, us in row["terms"])
    return Candidate(str(row["label"]), tiling, terms, str(row["refused"]))
