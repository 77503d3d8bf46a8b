"""A process that compiles a model and reports its counters, and a reset of this one's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import blake2b
from typing import Any

import explorer
from explorer import cache
from explorer.codegen import emit
from explorer.passes import snapshots
from explorer.stored import constants, programs

Told = dict[str, Any]
SCRIPT = "from tests.fresh_process import tell; tell({0!r})"


def forgotten() -> None:
    """After: this process remembers no compilation. Machine code stays with who uses it."""
    cache.finish()
    programs._compiled_here.clear()
    programs._open_programs.clear()
    constants._open_constants.clear()
    snapshots._memos.clear()
    emit._codes.clear()


def bits(c: explorer.Compilation) -> str:
    """A digest of the answers to random inputs."""
    found = c.run(c.random_inputs())
    return blake2b(b"".join(a.tobytes() for a in found.values())).hexdigest()


def told(model: Any) -> Told:
    """What compiling and running a model took."""
    with explorer.counters.delta() as did:
        c = explorer.compile(model)
        found = bits(c)
    return {
        "passes": did.pass_runs,
        "kernels": did.kernel_compiles,
        "hits": did.program_hits,
        "misses": did.program_misses,
        "bits": found,
    }


def tell(model: str) -> None:
    """The same, for the process that waits for it."""
    print(json.dumps(told(model)))


def process(model: str, **variables: str) -> subprocess.Popen[str]:
    """A new process that tells it."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(model)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


def elsewhere(model: str, **variables: str) -> Told:
    """What a new process told."""
    return ended(process(model, **variables))


def ended(child: subprocess.Popen[str]) -> Told:
    """What a process told that has ended well."""
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    answer: Told = json.loads(out)
    return answer


def is_kept(key: str) -> bool:
    """Whether there is an entry, intact."""
    return cache.get(key) is not None
