"""The benchmark's search finds the largest batch that fits, and one that does not beside it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.largest_batch import CLOSE, TRIES, largest_batch


@given(st.integers(0, 10**6), st.integers(10, 10**5), st.integers(0, 5000), st.integers(1, 4096))
def test_the_largest_batch_that_fits_is_found(
    fixed: int, each: int, wanted: int, first: int
) -> None:
    asked: list[int] = []

    def measure(batch: int) -> int:
        assert batch >= 1
        asked.append(batch)
        return fixed + each * batch

    fits, more = largest_batch(measure, fixed + each * wanted, first)
    assert len(asked) == len(set(asked)) <= TRIES + 2
    assert (fits is None) == (wanted == 0)
    assert more is not None and more[0] > wanted and more[1] == fixed + each * more[0]
    if fits:
        assert wanted - max(1, CLOSE * wanted) <= fits[0] <= wanted
