"""Errors are one sentence, and the same thing in parts."""

import copy
import pickle

import pytest

from explorer import errors
from explorer.errors import BadModelFile, IronworksError, ShapeError

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_one_line_that_the_user_can_be_shown(kind: type[IronworksError]) -> None:
    error = kind("the file model.onnx\nends after 12 bytes")
    assert str(error) == "the file model.onnx ends after 12 bytes"
    assert isinstance(error, IronworksError)
    assert kind.__doc__ and "\n" not in kind.__doc__


def test_an_error_says_its_parts_and_leaves_out_the_empty_ones() -> None:
    error = ShapeError("matmul: inner is 1024 and 768", where="h2", expected=1024, found=768)
    assert error.fields() == {
        "error": "ShapeError",
        "sentence": "matmul: inner is 1024 and 768",
        "where": "h2",
        "expected": "1024",
        "found": "768",
    }


def test_what_to_try_is_kept() -> None:
    assert ShapeError("no", try_="transpose the weight").fields()["try"] == "transpose the weight"


def test_an_error_keeps_its_parts_when_it_crosses_a_process_border() -> None:
    error = ShapeError("inner differs", where="h2", expected="1024", found="768", try_="transpose")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is ShapeError
        assert again.fields() == error.fields()


def test_every_error_class_is_listed() -> None:
    classes = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, IronworksError)
    }
    assert classes == set(errors.__all__)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b\x07", "a\\x00b\\x07"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\udcff", "\\udcff"),
        ("größe 层", "größe 层"),
        ("two\r\nlines\u2028", "two lines"),
    ],
)
def test_what_a_name_holds_cannot_steer_a_terminal(name: str, shown: str) -> None:
    error = BadModelFile(f"holds {name}", where=name, expected=name, found=name, try_=name)
    assert error.sentence == f"holds {shown}" == str(error)
    assert {error.where, error.expected, error.found, error.try_} == {shown}


def test_no_name_makes_an_error_too_long_to_read() -> None:
    error = BadModelFile("holds " + "\x1b" * 10_000_000 + " end", where="w" * 10_000_000)
    assert len(error.sentence) <= errors.LONGEST_SENTENCE
    assert error.sentence.startswith("holds \\x1b") and error.sentence.endswith("end")
    assert len(error.where) <= errors.LONGEST_PART
