"""The space of tilings: legal, countable, and the same for the same seed."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.roller.policy import candidates
from explorer.roller.tiling_space import TilingSpace, aligned_sizes, even_shares, space_of
from explorer.roller.weigh_tiles import refusal
from tests.codegen.cases import CASES, ENV, Case, conv, linear
from tests.roller.test_policy import DEVICE, SIZES

SOME = [CASES[n] for n in (0, 4, 6, 9, 13, 14, 19, 23, 26, 28, 31, 35, 37)]


def of(case: Case) -> TilingSpace:
    return space_of(normalise(case.kernel), DEVICE, ENV, SIZES)


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.name)
def test_every_sample_is_legal_and_there_are_no_two_alike(case: Case) -> None:
    space = of(case)
    found = space.sample(12, 3)
    assert found and len(set(found)) == len(found)
    assert not any(refusal(space.kernel, t, DEVICE, ENV, SIZES) for t in found)


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.name)
def test_a_seed_draws_the_same_tilings_each_time(case: Case) -> None:
    assert of(case).sample(6, 11) == of(case).sample(6, 11)


def test_seeds_differ_and_a_longer_sample_begins_as_a_shorter_one() -> None:
    space = of(conv(28, 28, 64, 96, 3, 1, 1))
    assert space.sample(8, 1) != space.sample(8, 2)
    assert space.sample(8, 1)[:5] == space.sample(5, 1)


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.name)
def test_points_are_numbered_from_zero_to_their_count(case: Case) -> None:
    space = of(case)
    random = Random(5)
    for number in (0, space.count - 1, *(random.randrange(space.count) for _ in range(40))):
        assert space.number(space.tiling(number)) == number
    with pytest.raises(IndexError, match="points"):
        space.tiling(space.count)
    assert space.number(Tiling((("nowhere", 2),))) is None


@pytest.mark.parametrize("case", SOME[:6], ids=lambda c: c.name)
def test_neighbours_are_legal_and_one_choice_away(case: Case) -> None:
    space = of(case)
    here = space.sample(1, 7)[0]
    near = list(islice(space.neighbours(here), 6))
    assert all(space.is_legal(t) for t in near) and here not in near
    for t in near:
        same = (t.tile == here.tile, t.micro == here.micro, t.pack == here.pack)
        assert sum((*same, t.depth_block == here.depth_block)) == 3
        assert here in space.neighbours(t)


def test_a_small_space_is_drawn_to_its_end() -> None:
    space = of(CASES[40])  # seven whole numbers
    every = [space.tiling(n) for n in range(space.count)]
    assert set(space.sample(1000, 1)) == {t for t in every if space.is_legal(t)}


def test_what_roller_takes_for_a_square_product_is_a_point_of_the_space() -> None:
    space = of(linear(128, 384, 1536, "relu", {}))
    best = next(candidates(space.kernel, DEVICE, ENV, SIZES))
    assert isinstance(best.value, Tiling) and space.number(best.value) is not None


def test_a_choice_that_changes_nothing_is_none() -> None:
    constant, depthwise = of(linear(128, 384, 1536, "relu", {})), of(CASES[14])
    assert constant.packs == (False,) and len(constant.micros) > 50 and len(constant.blocks) > 3
    assert (len(depthwise.micros), depthwise.packs, depthwise.blocks) == (1, (False,), (0,))


def test_even_shares_are_all_ways_to_cut_evenly() -> None:
    for extent in (1, 2, 7, 12, 56, 97, 224):
        assert even_shares(extent) == {-(-extent // k) for k in range(1, extent + 1)}
    assert even_shares(0) == set()


def test_the_innermost_axis_is_cut_into_whole_vectors() -> None:
    assert aligned_sizes(50, 16, inner=True) == {16, 32, 48}
    assert aligned_sizes(5, 16, inner=False) == {1, 2, 3, 4}


def test_the_changes_of_a_search_stay_in_the_space() -> None:
    space = of(conv(28, 28, 64, 96, 3, 1, 1))
    one, other = space.sample(2, 0)
    random = Random(0)
    for _ in range(20):
        child = space.crossed(one, other, random)
        assert space.number(child) is not None
        assert space.number(space.changed(child, random)) is not None
    assert space.crossed(one, one, random) == one
