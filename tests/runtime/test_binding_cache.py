"""The cache of bindings: a bounded number, the last used ones, and bounded memory."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import explorer
from explorer.process.counters import counters
from explorer.process.garbage import rare_collections
from explorer.runtime import executable
from explorer.runtime.executable import Executable


@pytest.fixture(scope="module")
def compiled() -> explorer.Compilation:
    @explorer.trace
    def chain(x: explorer.tensor("float32", "n", 8)):  # type: ignore[valid-type]
        from explorer import np as enp

        y = enp.exp(x)
        return y / enp.sum(y, axis=0, keepdims=True)

    return explorer.compile(chain)


def fresh(c: explorer.Compilation) -> Executable:
    return Executable(c.program, c.codes, c.device)


def run(e: Executable, n: int) -> None:
    x = np.linspace(0, 1, 8 * n, dtype=np.float32).reshape(n, 8)
    (name,) = e.tasks.inputs
    (y,) = e.run({name: x}).values()
    wanted = np.exp(x) / np.exp(x).sum(0, keepdims=True)
    assert np.allclose(y, wanted, rtol=1e-5)


def test_hundreds_of_bindings_keep_no_more_than_the_bound(compiled: explorer.Compilation) -> None:
    with rare_collections():  # what was there before is not looked through
        e = fresh(compiled)
        run(e, 1)
        (first,) = (weakref.ref(b) for b in e._bounds.values())
        for n in range(1, 3 * executable.MAX_BINDINGS):
            run(e, n)
            assert (
                len(e._bounds) <= executable.MAX_BINDINGS
                and len(e._plans) <= executable.MAX_BINDINGS
            )
            assert set(map(id, e._by_shape.values())) <= set(map(id, e._bounds.values()))
        gc.collect()
    assert first() is None


def test_a_binding_in_use_outlives_hundreds_of_others(compiled: explorer.Compilation) -> None:
    e = fresh(compiled)
    run(e, 1000)
    with counters.delta() as did:
        for n in range(1, 2 * executable.MAX_BINDINGS):
            run(e, n)
            run(e, 1000)
    assert did.arenas_made == 2 * executable.MAX_BINDINGS - 1


def test_idle_arenas_stay_within_their_bytes_and_the_last_used_stay(
    compiled: explorer.Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    e = fresh(compiled)
    run(e, 2)
    one = next(iter(e._bounds.values())).arena_bytes
    monkeypatch.setattr(executable, "IDLE_ARENA_BYTES", 4 * one)
    for n in range(3, 20):
        run(e, n)
        held = sum(b.pooled_bytes for b in e._bounds.values())
        assert held <= 4 * max(b.arena_bytes for b in e._bounds.values())
    with counters.delta() as did:
        run(e, 19)
    assert did.arenas_made == 0


def test_walls_of_many_sizes_keep_no_more_plans_than_the_bound(
    compiled: explorer.Compilation,
) -> None:
    e = fresh(compiled)
    (name,) = compiled.hint
    for n in range(1, 2 * executable.MAX_BINDINGS):
        e.planned_wall({name: n})
    assert len(e._plans) <= executable.MAX_BINDINGS
