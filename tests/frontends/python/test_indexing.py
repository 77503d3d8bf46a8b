"""`x[...]` of a traced array is NumPy's, whatever stands between the brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import explorer
from explorer import np as xp
from explorer.errors import ShapeError
from explorer.frontends.python.trace import Traced

RANK = 3
extents = st.tuples(*[st.integers(0, 5)] * RANK)
ends = st.none() | st.integers(-7, 7)
slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 3, -1, -2]))
numbers = st.integers(-5, 4)
places = st.lists(numbers, min_size=1, max_size=3).map(np.array)
tables = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=2).map(np.array)
masks = st.lists(st.booleans(), min_size=5, max_size=5).map(np.array)
items = slices | numbers | places | tables | st.just(None) | st.just(Ellipsis)
indices = st.lists(items, min_size=1, max_size=5).map(tuple)


def indexed(index: Any, shape: tuple[int, ...], *, symbolic: bool) -> np.ndarray:
    """`x[index]`, recorded at symbolic or at known extents, and interpreted."""
    dims = ("a", "b", "c") if symbolic else shape
    model = explorer.load(
        Traced(lambda x: x[index]),
        bounds={d: (0, None) for d in dims} if symbolic else None,
        inputs={"x": explorer.tensor("int64", *dims)},
    )
    return explorer.evaluate(model.program, {"x": table(shape)})["output"]


def table(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


def on_numpy(index: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """What NumPy gives; None where it refuses."""
    try:
        return table(shape)[index]
    except IndexError:
        return None


@given(index=indices, shape=extents, symbolic=st.booleans())
@example((None, np.array([[0, 0]]), Ellipsis, 0, 0), (1, 1, 1), False)  # an ellipsis stands apart
@example((slice(-6, None, -1),), (5, 1, 1), True)  # starts before the first element
@example((slice(-2, -5, -1),), (3, 1, 1), True)
def test_indices_mean_what_they_mean_in_numpy(
    index: Any, shape: tuple[int, ...], symbolic: bool
) -> None:
    wanted = on_numpy(index, shape)
    assume(wanted is not None)
    found = indexed(index, shape, symbolic=symbolic)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@given(index=indices, shape=extents)
def test_what_numpy_refuses_is_refused_at_known_extents(index: Any, shape: tuple[int, ...]) -> None:
    assume(on_numpy(index, shape) is None)
    with pytest.raises(ShapeError, match=r"test_indexing\.py:"):
        indexed(index, shape, symbolic=False)


@given(mask=masks, rest=slices | numbers)
def test_masks_choose_as_many_as_the_run_says(mask: np.ndarray, rest: Any) -> None:
    @explorer.trace
    def model(x: explorer.tensor("int64", "n", "m"), chosen: explorer.tensor("bool", "n")) -> Any:
        return x[chosen], x[chosen][:, rest], x[x > 6]

    x = table((5, 5))
    found = explorer.evaluate(explorer.load(model).program, {"x": x, "chosen": mask})
    for name, wanted in zip(found, model(x, mask), strict=True):
        np.testing.assert_array_equal(found[name], wanted)


@given(
    a=st.integers(1, 6),
    first=st.sampled_from(["0", "n // 2", "n - 1", "-1", "1", "-n", "k"]),
    last=st.sampled_from(["n", "n // 2 + 1", "n - 1", "-1", "n * 2", "k + 2"]),
)
def test_slices_by_dims(a: int, first: str, last: str) -> None:
    places = {
        "0": lambda n, k: 0,
        "1": lambda n, k: 1,
        "-1": lambda n, k: -1,
        "k": lambda n, k: k,
        "n": lambda n, k: n,
        "-n": lambda n, k: -n,
        "n // 2": lambda n, k: n // 2,
        "n // 2 + 1": lambda n, k: n // 2 + 1,
        "n - 1": lambda n, k: n - 1,
        "n * 2": lambda n, k: n * 2,
        "k + 2": lambda n, k: k + 2,
    }

    @explorer.trace
    def model(x: explorer.tensor("int64", "n"), k: explorer.tensor("int64")) -> Any:
        n = x.shape[0]
        return x[places[first](n, k) : places[last](n, k)]

    inputs = {"x": table((a,)), "k": np.array(a // 3)}
    found = explorer.evaluate(explorer.load(model).program, inputs)["output"]
    np.testing.assert_array_equal(found, model(**inputs))


def test_one_compilation_of_many_indices() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", "n", 4, "m"), k: explorer.tensor("int64", "p")) -> Any:
        return {
            "slices": x[1:, ::-2, -3:],
            "numbers": x[-1, 2],
            "new": x[:, None, 0, ..., None],
            "places": x[:, k],
            "pairs": x[:, k, k * 0],
            "apart": x[k * 0, :, k * 0],
            "table": x[:, np.array([[0, 3], [-1, 1]])],
            "one": x[:, k[0]],
            "along": xp.take(x, k, axis=1) + 1,
        }

    compiled = explorer.compile(explorer.load(model))
    for n, m, p in ((1, 3, 1), (5, 7, 2), (2, 1, 3)):
        x = np.random.default_rng(0).standard_normal((n, 4, m)).astype(np.float32)
        inputs = {"x": x, "k": np.arange(p) % 4 - 1}
        found = compiled.run(inputs)
        for name, wanted in model(**inputs).items():
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)
