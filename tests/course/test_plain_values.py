"""Plain values are read back as they were; whatever else a text holds is refused."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.course.plain_values import MOST_BYTES, NotPlain, decode, encode

VALUES: tuple[object, ...] = (
    *(None, True, -1, 2**63, 0.5, float("inf"), "€\n", b"\x00", [], ()),
    [1, (2.0, [None])],
    {"a": 1, 2: ("b",)},
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_read_back_with_its_types(value: object) -> None:
    again = decode(encode(value))
    assert again == value and repr(again) == repr(value)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_an_array_is_read_back(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype)
    again = decode(encode([array, array.T]))
    assert [a.dtype for a in again] == [array.dtype] * 2
    assert np.array_equal(again[0], array) and np.array_equal(again[1], array.T)


class Word(str):
    """A word with behaviour of its own."""


@pytest.mark.parametrize(
    "value",
    [object(), len, Word("a"), 1 << 70, 1j, {1, 2}, np.array(["a"]), np.array([object()])],
    ids=lambda v: type(v).__name__,
)
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(NotPlain, match="is "):
        encode([value])


def test_large_and_deep_values_are_refused() -> None:
    with pytest.raises(NotPlain, match="larger than 16 MiB"):
        encode("x" * (MOST_BYTES + 1))
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(NotPlain, match="deeper than 32"):
        encode(deep)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[" * 40 + b"]" * 40,
        b"9" * 5000,
        b"{}",
        b'{"eval":"1"}',
        b'{"float":"1"}',
        b'{"tuple":3}',
        b'{"dict":[[[1],2]]}',
        b'{"bytes":"?"}',
        b'{"array":["object",[1],"AAAAAAAAAAA="]}',
        b'{"array":["float32",[-1,-1],"AAAAAA=="]}',
        b'{"array":["float32",[1000000],"AAAAAA=="]}',
        b'{"array":["float32",[true],"AAAAAA=="]}',
        b'{"array":["float32",3]}',
        b" " * (MOST_BYTES + 1),
    ],
    ids=range(18),
)
def test_a_text_of_another_kind_is_refused(text: bytes) -> None:
    with pytest.raises(NotPlain):
        decode(text)
