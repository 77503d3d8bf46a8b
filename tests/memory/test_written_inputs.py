"""Donated inputs that kernels change in part: nothing else is written, and answers are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import BadOption, ShapeError
from explorer.frontends.python.tracing.emit import emit
from explorer.frontends.python.tracing.frames import attributed_to_call
from explorer.process.counters import counters

tensor = explorer.tensor
CACHE = ("batch", "room", 4)


def append(cache: Any, rows: Any, at: Any) -> Any:
    with attributed_to_call("append"):
        return emit("TensorScatter", cache, rows, at, axis=1, mode="drop")


@explorer.trace
def two_caches(
    keys: tensor("float32", *CACHE),
    values: tensor("float32", *CACHE),
    rows: tensor("float32", "batch", "n", 4),
    at: tensor("int64", "batch"),
) -> Any:
    new_keys, new_values = append(keys, rows, at), append(values, rows * 2.0, at)
    total = xp.sum(xp.sum(new_keys, axis=1) * xp.sum(new_values, axis=1), axis=1)
    return {"total": total, "keys": new_keys, "values": new_values}


def drawn(seed: int, batch: int = 2, room: int = 9, n: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "keys": rng.standard_normal((batch, room, 4), np.float32),
        "values": rng.standard_normal((batch, room, 4), np.float32),
        "rows": rng.standard_normal((batch, n, 4), np.float32),
        "at": rng.integers(0, max(1, room - n + 1), batch),
    }


def copied(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: a.copy() for n, a in inputs.items()}


PLAIN = explorer.compile(two_caches)
DONATED = explorer.compile(two_caches, donate=("keys", "values"))
OPTIONS = explorer.Options(rammer=explorer.rammer.Options(threads=2))
ON_TWO = explorer.compile(two_caches, donate=("keys", "values"), options=OPTIONS)


@pytest.mark.parametrize("c", [DONATED, ON_TWO], ids=["one unit", "two units"])
@pytest.mark.parametrize(("batch", "room", "n"), [(2, 9, 3), (1, 1, 1), (3, 300, 1), (2, 5, 0)])
def test_steps_in_place_give_what_steps_on_copies_give(
    c: Any, batch: int, room: int, n: int
) -> None:
    here = drawn(batch, batch, room, n)
    elsewhere = copied(here)
    for step in range(4):
        new = drawn(step, batch, room, n)
        for name in ("rows", "at"):
            here[name], elsewhere[name] = new[name], new[name]
        made = counters.arrays_made
        got, right = c.run(here), None
        assert counters.arrays_made - made <= 1  # `total` alone
        right = PLAIN.run(elsewhere)
        assert got["keys"] is here["keys"] and got["values"] is here["values"]
        for name, value in right.items():
            np.testing.assert_array_equal(got[name], value)
        elsewhere |= {name: right[name] for name in ("keys", "values")}
    assert c.donated == {"keys": "keys", "values": "values"}


def test_inputs_stay_as_they_are_without_donation() -> None:
    inputs = drawn(5)
    before = copied(inputs)
    PLAIN.run(inputs)
    for name, array in before.items():
        np.testing.assert_array_equal(inputs[name], array)


def test_one_array_for_two_caches_and_views_of_one_are_told_apart() -> None:
    both = drawn(6)
    for overlap in ("same", "shifted", "rows are the cache"):
        inputs = copied(both)
        block = np.random.default_rng(1).standard_normal((2 * 9 * 4 + 40,)).astype(np.float32)
        inputs["keys"] = block[:72].reshape(2, 9, 4)
        if overlap == "same":
            inputs["values"] = inputs["keys"]
        elif overlap == "shifted":
            inputs["values"] = block[8:80].reshape(2, 9, 4)
        else:
            inputs["rows"] = block[4:28].reshape(2, 3, 4)
        right = PLAIN.run(copied(inputs))
        got = DONATED.run(inputs)
        for name, value in right.items():
            np.testing.assert_array_equal(got[name], value, err_msg=overlap)


def test_arrays_that_cannot_be_written_or_read_in_place_are_copied() -> None:
    for change in ("read-only", "strided", "big-endian"):
        inputs = drawn(7)
        if change == "read-only":
            inputs["keys"].flags.writeable = False
        elif change == "strided":
            wide = np.repeat(inputs["keys"], 2, axis=2)
            inputs["keys"] = wide[..., ::2]
        else:
            inputs["keys"] = inputs["keys"].astype(">f4")
        before = inputs["keys"].copy()
        right = PLAIN.run(copied(inputs))
        got = DONATED.run(inputs)
        np.testing.assert_array_equal(inputs["keys"], before)
        for name, value in right.items():
            np.testing.assert_array_equal(got[name], value, err_msg=change)


def test_out_may_be_the_cache_another_array_or_wrong() -> None:
    inputs, target = drawn(8), np.zeros((2, 9, 4), np.float32)
    right = PLAIN.run(copied(inputs))
    got = DONATED.run(copied(inputs), out={"keys": target})
    assert got["keys"] is target
    np.testing.assert_array_equal(target, right["keys"])
    got = DONATED.run(inputs, out={"keys": inputs["keys"]})
    assert got["keys"] is inputs["keys"]
    np.testing.assert_array_equal(inputs["keys"], right["keys"])
    inputs = drawn(8)
    swapped = {"keys": inputs["values"], "values": inputs["keys"]}
    got = DONATED.run(inputs, out=swapped)
    np.testing.assert_array_equal(got["keys"], right["keys"])
    np.testing.assert_array_equal(got["values"], right["values"])
    inputs = drawn(8)
    got = DONATED.run(inputs, out={"keys": inputs["values"]})
    np.testing.assert_array_equal(got["keys"], right["keys"])
    np.testing.assert_array_equal(got["values"], right["values"])
    with pytest.raises(BadOption, match="share memory"):
        DONATED.run(drawn(8), out={"keys": target, "values": target})
    with pytest.raises(ShapeError):
        DONATED.run(drawn(8), out={"keys": target[:1]})


def test_a_cache_that_is_no_output_or_is_read_later_is_right() -> None:
    @explorer.trace
    def other(
        keys: tensor("float32", *CACHE),
        rows: tensor("float32", "batch", "n", 4),
        at: tensor("int64", "batch"),
    ) -> Any:
        new = append(keys, rows, at)
        return {"sum": xp.sum(new, axis=1), "old": xp.max(keys, axis=1)}

    plain, donated = explorer.compile(other), explorer.compile(other, donate="keys")
    inputs = {n: a for n, a in drawn(9).items() if n != "values"}
    right = plain.run(copied(inputs))
    got = donated.run(inputs)
    for name, value in right.items():
        np.testing.assert_array_equal(got[name], value)


def test_a_check_of_every_step_and_a_profile_are_right_in_place() -> None:
    checked = explorer.compile(two_caches, donate=("keys", "values"), check=True)
    inputs = drawn(10)
    right = PLAIN.run(copied(inputs))
    for name, value in checked.run(copied(inputs)).items():
        np.testing.assert_array_equal(value, right[name])
    assert DONATED.profile(copied(inputs)).total_us > 0


def test_what_is_exported_leaves_its_inputs(tmp_path: Any) -> None:
    with pytest.raises(BadOption, match="donate"):
        explorer.export(DONATED, tmp_path / "there", sizes={"batch": 1, "room": 8, "n": 1})
