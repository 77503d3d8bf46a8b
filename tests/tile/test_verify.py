"""What is refused before anybody prints it: levels that are not there, blocks that are too large,
threads that meet.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import CheckFailed
from explorer.ir.affine import Affine, affine, var
from explorer.ir.kernel import Const
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Fetch,
    Fill,
    For,
    Map,
    Span,
    Statement,
    Sync,
    Threads,
    TileProgram,
)
from explorer.tile.hazards import race
from explorer.tile.rewrites import steps
from explorer.tile.verify import level_problem, verify
from tests.codegen.cases import CASES, ENV, Case
from tests.examples import examples
from tests.tile.gpu.blocks import V100
from tests.tile.programs import HERE

X, Y = Buffer("x", "input", 4096), Buffer("y", "output", 4096)
S = Buffer("s", "scratch", 4096, level="L1")


def on_threads(count: int, size: int, target: Fetch, expr: Fetch | Const) -> For:
    return For(Span("t", Affine(), size, size), (Map(target, (), expr),), Threads(count))


def block(*body: Statement, buffers: tuple[Buffer, ...] = (X, Y, S)) -> TileProgram:
    return TileProgram((), body, buffers)


WRITE = on_threads(32, 64, Fetch(S, var("t")), Fetch(X, var("t")))
READ = on_threads(32, 64, Fetch(Y, var("t")), Fetch(S, var("t") * -1 + 63))
SAME = on_threads(32, 64, Fetch(Y, var("t")), Fetch(S, var("t")))


def test_a_sync_stands_between_what_threads_exchange() -> None:
    verify(block(WRITE, Sync(), READ), V100)
    verify(block(WRITE, SAME), V100)  # each reads what it wrote itself
    with pytest.raises(CheckFailed, match="no Sync is between"):
        verify(block(WRITE, READ), V100)
    with pytest.raises(CheckFailed, match="no Sync is between"):
        loop = For(Span("k", Affine(), 2, 2), (WRITE, Sync(), READ))
        verify(block(loop), V100)  # the next trip writes what this one reads
    with pytest.raises(CheckFailed, match="two threads may access"):
        verify(block(on_threads(32, 64, Fetch(S, Affine()), Const(0.0))), V100)


def test_a_sync_in_a_loop_that_may_not_run_mends_nothing() -> None:
    idle = on_threads(32, 32, Fetch(Y, var("t") + 512), Const(0.0))
    span = Span("k", Affine(), 2, 2)
    verify(block(WRITE, For(span, (idle, Sync())), READ), V100)
    with pytest.raises(CheckFailed, match="no Sync"):
        verify(block(WRITE, For(replace(span, clip_high=True), (idle, Sync())), READ), V100)


WRONG = {
    "lies in L9": block(WRITE, buffers=(X, Y, replace(S, level="L9"))),
    "scratch takes 65536 bytes": block(WRITE, buffers=(X, Y, replace(S, size=16384))),
    "a thread keeps 512 registers": block(
        WRITE, buffers=(X, Y, S, Buffer("r", "scratch", 512, level=REGISTER))
    ),
    "has 1024 threads": block(on_threads(1024, 1024, Fetch(Y, var("t")), Const(0.0))),
    "a Sync is of a warp": block(
        on_threads(64, 64, Fetch(Y, var("t")), Const(0.0)), Sync("warp"), WRITE
    ),
    "is outside of distributed loops": block(WRITE, Sync(), Fill(S, 0.0)),
    "in a program without threads": block(Fill(S, 0.0), Sync()),
    "which not all threads reach": block(
        For(Span("t", Affine(), 4, 4), (Sync(), *WRITE.body), Threads(4))
    ),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_is_refused(why: str) -> None:
    with pytest.raises(CheckFailed, match=why):
        verify(WRONG[why], V100)


def test_registers_are_read_by_the_thread_that_wrote_them() -> None:
    r = Fetch(Buffer("r", "scratch", 1, level=REGISTER), Affine())
    write = on_threads(32, 32, r, Fetch(X, var("t")))
    read, other = (on_threads(n, 32, Fetch(Y, var("t")), r) for n in (32, 16))
    verify(block(write, read, buffers=(X, Y, r.buffer)), V100)
    with pytest.raises(CheckFailed, match="another one would read"):
        verify(block(write, Sync(), other, buffers=(X, Y, r.buffer)), V100)


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_buffers_of_this_machine_lie_in_its_levels(c: Case) -> None:
    named, axes = canonical(normalise(c.kernel))
    for name, p in steps(named, renamed_tiling(c.tiling, axes), ENV, HERE):
        assert not level_problem(p, HERE), name


SIZES = st.integers(1, 6)
FACTORS = st.integers(-4, 4)


@st.composite
def parts(draw: st.DrawFn) -> tuple[tuple[int, int], tuple[int, int], Affine]:
    """Two loops, how many threads each is dealt out to, and an offset."""
    sizes, counts = (draw(SIZES), draw(SIZES)), (draw(SIZES), draw(SIZES))
    offset = affine({"a": draw(FACTORS), "b": draw(FACTORS)}, 100 + draw(FACTORS))
    return sizes, counts, offset


def touched(part: tuple[tuple[int, int], tuple[int, int], Affine]) -> dict[int, set[int]]:
    """By element, which threads come to it: one point at a time."""
    (n, m), (p, q), offset = part
    found: dict[int, set[int]] = {}
    for a, b in product(range(n), range(m)):
        at = int(offset.const) + a * int(offset.factor("a")) + b * int(offset.factor("b"))
        found.setdefault(at, set()).add(a % p * q + b % q)
    return found


def loops(part: tuple[tuple[int, int], tuple[int, int], Affine], is_write: bool, to: int) -> For:
    (n, m), (p, q), offset = part
    mine, other = Fetch(S, offset), Fetch(Y, var("a") * m + var("b") + to)
    target, expr = (mine, Const(0.0)) if is_write else (other, mine)
    inner = For(Span("b", Affine(), m, m), (Map(target, (), expr),), Threads(q))
    return For(Span("a", Affine(), n, n), (inner,), Threads(p))


@settings(max_examples=examples(300), deadline=None)
@given(parts(), parts())
def test_the_checker_says_what_counting_says(
    a: tuple[tuple[int, int], tuple[int, int], Affine],
    b: tuple[tuple[int, int], tuple[int, int], Affine],
) -> None:
    one, two = touched(a), touched(b)
    alone = any(len(threads) > 1 for threads in one.values())
    meets = any(len(one[e] | two[e]) > 1 for e in one.keys() & two.keys())
    said = race(block(loops(a, True, 0), loops(b, False, 2048)))
    assert bool(said) == (alone or meets)
    assert ("may access one" in said) == alone
    mended = race(block(loops(a, True, 0), Sync(), loops(b, False, 2048)))
    assert bool(mended) == alone
