"""Intermediates that never live at once lie in one buffer; those that do never share bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Const
from explorer.ir.tile_program import Buffer, Do, Fetch, Fill, Map, Span, TileProgram, fetches
from explorer.tile.rewriting.keep_in_output import share_scratch
from tests.tile.programs import HERE

SPAN = (Span("i", Affine(), 4, 4),)


def chain(sizes: list[int], readers: list[int]) -> TileProgram:
    """Each intermediate is made from the one before it and from an earlier one."""
    source, out = Buffer("x", "input", 99), Buffer("y", "output", 99)
    made = [Buffer(f"t{n}", "scratch", s, level="L2") for n, s in enumerate(sizes)]
    every = [source, *made, out]
    body = []
    for n, target in enumerate(every[1:], 1):
        early = every[max(0, n - 1 - readers[n - 1])]
        reads = tuple(Fetch(b, var("i")) for b in (every[n - 1], early))
        body.append(Map(Fetch(target, var("i")), SPAN, Do("add", reads)))
    return TileProgram((), tuple(body), tuple(every))


def accesses(program: TileProgram) -> Iterator[tuple[Any, list[Any]]]:
    for s in program.body:
        assert isinstance(s, Map)
        yield s.target.buffer, [f.buffer for f in fetches(s.expr)]


@given(data=st.data())
def test_what_is_read_is_what_was_written_last(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(4, 50), min_size=1, max_size=9))
    count = len(sizes) + 1
    readers = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    before = chain(sizes, readers)
    after = share_scratch(before, HERE)
    holds: dict[str, str] = {}
    for (old, olds), (new, news) in zip(accesses(before), accesses(after), strict=True):
        for a, b in zip(olds, news, strict=True):
            assert a.kind == "input" or holds[b.name] == a.name
        holds[new.name] = old.name
    room = {b.name: b.size for b in after.buffers}
    assert all(room[b.name] >= b.size for t, r in accesses(after) for b in (t, *r))
    assert sum(room.values()) <= sum(b.size for b in before.buffers if isinstance(b.size, int))


def test_a_chain_needs_two_buffers() -> None:
    after = share_scratch(chain([10, 20, 30, 40], [0] * 5), HERE)
    assert [(b.name, b.size) for b in after.buffers if b.kind == "scratch"] == [
        ("t0", 30),
        ("t1", 40),
    ]


def test_a_fill_covers_no_more_than_its_own_intermediate() -> None:
    program = chain([10, 20, 30], [0] * 4)
    first = program.buffers[1]
    filled = TileProgram((), (Fill(first, 0.0), *program.body), program.buffers)
    fill = share_scratch(filled, HERE).body[0]
    assert isinstance(fill, Fill) and fill.target.size == 10


def test_constants_and_small_programs_stay_as_they_are() -> None:
    small = chain([10, 20], [0] * 3)
    assert share_scratch(small, HERE) == small
    number = Map(Fetch(small.buffers[0], Affine()), SPAN, Const(1.0))
    alone = TileProgram((), (number,), small.buffers)
    assert share_scratch(alone, HERE) == alone
