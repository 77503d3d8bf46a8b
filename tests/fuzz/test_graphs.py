"""A few seeds of the net, and that the net is one: it draws the same again, and catches."""

from pathlib import Path

import pytest

from tests.fuzz.attempt import settings_of, tried, try_dynamic
from tests.fuzz.saved import load_case, save
from tests.strategies.onnx.graphs import case

SEEDS = (1, 2, 3, 5, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_graph_is_compiled_right(seed: int) -> None:
    assert [str(f) for f in tried(case(seed), settings_of(seed)).failures] == []


def test_a_graph_is_a_function_of_its_seed(tmp_path: Path) -> None:
    one, two = case(42), case(42)
    assert one.model.SerializeToString() == two.model.SerializeToString()
    again = load_case(save(one, "", tmp_path, "one"))
    assert again.model == one.model
    assert all(
        (a[k].tobytes() == b[k].tobytes() for a, b in zip(again.feeds, two.feeds) for k in a)
    )


def test_a_graph_of_symbols_is_found_where_the_first_has_no_dims(tmp_path: Path) -> None:
    assert not try_dynamic(890000735, tmp_path, tmp_path).failures
