"""Which arrays a run writes its outputs into, against the rule looked at pair by pair."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import BadOption
from explorer.runtime.binding.bound import Outputs
from explorer.runtime.workers.aligned_memory import aligned_array

ROOM, ITEMS = 12, 4  # elements of the memory that all arrays are views of, and of each view

begins = st.integers(0, ROOM - ITEMS)


@st.composite
def places(draw: st.DrawFn) -> tuple[list[int], dict[int, int], dict[int, frozenset[int]]]:
    """Where the inputs begin, where each output does, and which inputs it may be written over."""
    inputs = draw(st.lists(begins, min_size=1, max_size=4))
    outputs = draw(st.dictionaries(st.integers(0, 3), begins | st.sampled_from(inputs), max_size=4))
    allowed = st.frozensets(st.integers(0, len(inputs) - 1))
    return inputs, outputs, draw(st.dictionaries(st.integers(0, 3), allowed))


@given(places())
def test_an_output_is_written_in_place_where_nothing_else_lies_there(
    drawn: tuple[list[int], dict[int, int], dict[int, frozenset[int]]],
) -> None:
    inputs, outputs, over = drawn
    memory = aligned_array((ROOM,), np.dtype(np.float32))

    def at(begin: int) -> np.ndarray:
        return memory[begin : begin + ITEMS]

    def meet(a: int, b: int) -> bool:
        return abs(a - b) < ITEMS

    names = [f"y{n}" for n in range(4)]
    given_out = {names[n]: at(begin) for n, begin in outputs.items()}
    kinds = [((ITEMS,), np.dtype(np.float32))] * len(names)
    made = Outputs.of(names, kinds, over)
    if any(meet(a, b) for a, b in combinations(outputs.values(), 2)):
        with pytest.raises(BadOption, match="share memory"):
            made.select_arrays(given_out, [at(begin) for begin in inputs])
        return
    arrays, copied = made.select_arrays(given_out, [at(begin) for begin in inputs])
    for n, begin in outputs.items():
        apart = all(
            not meet(begin, i) or (begin == i and place in over.get(n, ()))
            for place, i in enumerate(inputs)
        )
        assert np.shares_memory(arrays[n], memory) == apart
        assert (n in copied) == (not apart)
