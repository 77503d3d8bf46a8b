"""On the data sheet of a GPU thread blocks may be set by hand: they are what is planned, printed
and simulated, or a sentence says why not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.frontends.model import Model
from explorer.ir.decisions.tiling import Tiling, thread_block

BLOCK = thread_block((("i", 16), ("j", 8)), 64, (("i_2", 2), ("j_2", 2)), (("k", 6),), (("k", 2),))


def product() -> Model:
    @explorer.trace
    def program(x, w):  # type: ignore[no-untyped-def]
        return xp.maximum(x @ w, 0)

    return program(x=explorer.tensor("float32", 33, 24), w=explorer.tensor("float32", 24, 19))


def with_block(c: Compilation, block: Tiling) -> Compilation:
    (name,) = (b.name for b in c.program.kernel_calls)
    return c.with_options(roller=replace(c.options.roller, pinned=((name, block),)))


def told(c: Compilation, name: str) -> list[str]:
    """The lines of an explanation that are about thread blocks."""
    return [x for x in str(c.explain(name)).splitlines() if " threads" in x]


def test_it_is_what_is_planned_printed_and_simulated() -> None:
    free = explorer.compile(product(), target="cuda-sim")
    (name,) = (b.name for b in free.program.kernel_calls)
    before = free.weighed_blocks(name)
    assert [w.label for w in before] == [x[4:].split("  ")[-1] for x in told(free, name)]
    for block in (BLOCK, before[0].value, before[-1].value):
        c = with_block(free, block)
        assert c.taken_blocks(name) == (block,)
        assert [x[0] for x in told(c, name) if block.words in x] == [">"]
        assert {w.value for w in c.weighed_blocks(name)} == {block, *(w.value for w in before)}
        (printed,) = c.blocks
        assert printed.code is not None and printed.code.threads == block.threads
        inputs = c.random_inputs()
        want = np.maximum(inputs["x"].astype(np.float64) @ inputs["w"], 0)
        for seed in (0, 1):
            (got,) = c.simulate(inputs, seed).values()
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert free.weighed_blocks(name) == before  # as it was


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(12))
def test_any_that_is_taken_means_the_same(seed: int) -> None:
    """However odd: sizes that divide nothing, threads without work, chunks of one."""
    rng = Random(seed)
    free = explorer.compile(product(), target="cuda-sim")
    (call,) = free.program.kernel_calls
    (i, j), (k,) = (33, 19), (24,)
    sizes = {"i": i, "j": j, "i_2": i, "j_2": j, "k": k}

    def some(*axes: str) -> tuple[tuple[str, int], ...]:
        return tuple((a, rng.choice((1, 2, sizes[a], rng.randint(1, sizes[a])))) for a in axes)

    while True:
        start = rng.choice([w.value for w in free.weighed_blocks(call.name)])
        parts = {"tile": some("i", "j"), "register": some("i_2", "j_2")}
        parts |= {"shared": some("k"), "parts": some("k")}
        named = rng.sample(sorted(parts), rng.randint(1, 4))
        block = replace(
            start, threads=rng.choice((1, 7, 32, 96, 512)), **{n: parts[n] for n in named}
        )
        with suppress(BadOption):  # of what is too large for a thread or for the device
            c = with_block(free, block)
            break
    inputs = c.random_inputs()
    want = np.maximum(inputs["x"].astype(np.float64) @ inputs["w"], 0)
    (got,) = c.simulate(inputs, seed).values()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (thread_block((("q", 1),), 32), "there is no axis 'q': expected one of i, j"),
        (thread_block((("i", 34),), 32), "i=34 is not from 1 to 33"),
        (thread_block((("i", 0),), 32), "i=0 is not from 1 to 33"),
        (thread_block((("i", 8),), 4096), "it has 4096 threads, h100 takes 512"),
        (
            replace(BLOCK, register=(("i_2", 16), ("j_2", 16))),
            "a thread has 256 elements, at most 96",
        ),
        (replace(BLOCK, matrix=("i_2", "j_2", "z")), "there is no axis 'z'"),
    ],
)
def test_one_that_cannot_be_is_refused(block: Tiling, why: str) -> None:
    c = explorer.compile(product(), target="h100", until="planned")
    with pytest.raises(BadOption, match=f"the thread block of .* is not legal: {why}"):
        with_block(c, block)


def test_a_processor_has_none() -> None:
    c = explorer.compile(product(), until="rolled")
    with pytest.raises(BadOption, match="has no thread blocks on this-cpu"):
        with_block(c, BLOCK)
