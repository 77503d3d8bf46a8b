"""A function is what it refers to: whatever is edited, its key changes, and its result is new."""

from __future__ import annotations

import functools
import itertools
import operator
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import helper as helper_of_onnx

import explorer
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.passes.content import Unhashable, content_key
from explorer.passes.fingerprint import pass_key

node = helper_of_onnx.make_node
LIMIT = 1
TABLE: dict[str, Any] = {"limit": [1, 2]}
ARRAY = np.zeros(4)


class Knobs:
    """Settings that a reader may turn."""

    limit = 1

    def __init__(self) -> None:
        self.own = 1

    def asked(self) -> int:
        return self.own + self.limit


class Slots:
    __slots__ = ("limit", "unset")

    def __init__(self) -> None:
        self.limit = 1


@dataclass
class Callable_:
    limit: int = 1
    more: list[int] = field(default_factory=list)

    def __call__(self) -> int:
        return self.limit


class Abstract(ABC):
    @abstractmethod
    def answer(self) -> int: ...


class Colour(Enum):
    RED = 1


Point = namedtuple("Point", "x y")
KNOBS, SLOTS, POINT = Knobs(), Slots(), Point(1, 2)


def helper() -> int:
    return LIMIT


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def reads_global() -> int:
    return LIMIT


def reads_helper() -> int:
    return helper()


def reads_deep() -> int:
    return (lambda: max(helper() for _ in range(2)))()


def reads_table() -> Any:
    return TABLE["limit"]


def reads_array() -> Any:
    return ARRAY.sum()


def reads_object() -> int:
    return KNOBS.own


def reads_class() -> int:
    return Knobs.limit


def reads_slots() -> int:
    return SLOTS.limit


def reads_even() -> bool:
    return even(4)


def set_global(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    monkeypatch.setattr(sys.modules[__name__], name, value)


EDITS: dict[str, tuple[Callable[[], Any], Callable[[pytest.MonkeyPatch], None]]] = {
    "a global": (reads_global, lambda m: set_global(m, "LIMIT", 2)),
    "a global's type": (reads_global, lambda m: set_global(m, "LIMIT", True)),
    "a global of a helper": (reads_helper, lambda m: set_global(m, "LIMIT", 2)),
    "a helper": (reads_helper, lambda m: set_global(m, "helper", lambda: 1)),
    "a helper's code": (
        reads_helper,
        lambda m: m.setattr(helper, "__code__", (lambda: 3).__code__),
    ),
    "a helper of a nested function": (reads_deep, lambda m: set_global(m, "LIMIT", 2)),
    "a list in a dict": (reads_table, lambda m: m.setitem(TABLE, "limit", [1, 3])),
    "another array": (reads_array, lambda m: set_global(m, "ARRAY", np.zeros((2, 2)))),
    "an attribute of an object": (reads_object, lambda m: m.setattr(KNOBS, "own", 2)),
    "an attribute of a class": (reads_class, lambda m: m.setattr(Knobs, "limit", 2)),
    "a method": (reads_object, lambda m: m.setattr(Knobs, "asked", lambda self: 0)),
    "a slot": (reads_slots, lambda m: m.setattr(SLOTS, "limit", 2)),
    "a helper in a circle": (reads_even, lambda m: set_global(m, "odd", lambda n: True)),
    "a bound method's object": (KNOBS.asked, lambda m: m.setattr(KNOBS, "own", 2)),
    "a partial's function": (
        functools.partial(operator.add, helper),
        lambda m: set_global(m, "LIMIT", 2),
    ),
    "a default": (reads_global, lambda m: m.setattr(reads_global, "__defaults__", (1,))),
    "an attribute of the function": (
        reads_global,
        lambda m: m.setattr(reads_global, "limit", 2, raising=False),
    ),
    "a name that was missing": (
        lambda: MISSING,  # type: ignore[name-defined] # noqa: F821
        lambda m: m.setattr(sys.modules[__name__], "MISSING", 1, raising=False),
    ),
    "a builtin that is hidden": (
        lambda: len(TABLE),
        lambda m: m.setattr(sys.modules[__name__], "len", lambda x: 0, raising=False),
    ),
    "what a remembering helper wraps": (
        functools.lru_cache(reads_helper),
        lambda m: set_global(m, "LIMIT", 2),
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_another_key_and_undone_the_same_again(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, edit = EDITS[what]
    before = content_key(function)
    assert content_key(function) == before
    with monkeypatch.context() as patched:
        edit(patched)
        assert content_key(function) != before
    assert content_key(function) == before


def test_two_functions_on_one_line_are_two() -> None:
    one, two = lambda: 1, lambda: 2
    three, four = lambda x=1: x, lambda x=2: x
    keys = [content_key(f) for f in (one, two, three, four)]
    assert len(set(keys)) == 4
    assert content_key(one) == keys[0]


def test_functions_that_differ_in_what_they_close_over_are_two() -> None:
    def made(n: object) -> Callable[[], object]:
        return lambda: n

    shared: list[int] = [1]
    keys = [content_key(made(n)) for n in (1, 2, True, 1.0, -0.0, 0.0, "1", shared, made(1))]
    assert len(set(keys)) == len(keys)
    assert content_key(made(shared)) == content_key(made([1]))
    shared.append(2)
    assert content_key(made(shared)) != content_key(made([1]))
    array = np.zeros(2)
    before = content_key(made(array))
    array[1] = 1
    assert content_key(made(array)) != before


def test_equal_values_have_equal_keys_and_others_others() -> None:
    values: list[Any] = [
        {1: 2}, {2: 1}, {"a": {1}}, {"a": {2}}, OrderedDict(a=1), {"a": frozenset({1})}, Colour.RED,
        Point(1, 2), Point(2, 1), (1, 2), [1, 2], Tiling((("i", 4),)), Tiling((("i", 8),)),
        Micro(1, 1, 4), np.arange(3), np.arange(3.0), np.float32(1), np.float64(1), Callable_(1),
        Callable_(2), Callable_(1, [1]), 10**5000, float("nan"), b"x", range(3), slice(3),
        operator.itemgetter(1), operator.itemgetter(2), np.maximum, np.linalg.norm, len, [].append,
        str.upper, explorer.compile, Knobs, Slots(), ..., None, complex(1, 2),
    ]  # fmt: skip
    keys = [content_key(v) for v in values]
    assert len(set(keys)) == len(values)
    import copy

    copied = [v if callable(v) or v is ... else copy.deepcopy(v) for v in values]
    assert [content_key(v) for v in copied] == keys


def test_a_circle_of_values_ends() -> None:
    one: list[Any] = [1]
    one.append(one)
    two: dict[str, Any] = {"self": None}
    two["self"] = two
    assert content_key(one) != content_key(two)
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(Unhashable):
        content_key(deep)


counting = itertools.count()
generator = random.Random(0)
lock = threading.Lock()
opened = Path(__file__)
drawn = np.random.default_rng(0)


def use(*values: object) -> object:
    return values


CANNOT_BE_TOLD: dict[str, Callable[[], Any]] = {
    "random": lambda: random.random(),
    "a generator of random numbers": lambda: generator.random(),
    "NumPy's random numbers": lambda: np.random.rand(),
    "a generator of NumPy's": lambda: drawn.integers(3),
    "time": lambda: time.time(),
    "a file by path": lambda: opened.read_text(),
    "a file": lambda: open("x"),  # noqa: SIM115
    "a file by NumPy": lambda: np.load("x.npy"),
    "globals": lambda: globals()["LIMIT"],
    "eval": lambda: eval("LIMIT"),
    "getattr": lambda: getattr(KNOBS, "o" + "wn"),
    "an iterator": lambda: next(counting),
    "a lock": lambda: use(lock),
    "the dict of a function": lambda: helper.__globals__["LIMIT"],
    "a module that is handed on": lambda: use(random),
    "a generator": (lambda g: lambda: next(g))(n for n in range(3)),
    "a file that is open": (lambda f: lambda: f.read())(sys.__stderr__),
    "an import of what may change": lambda: __import__("random"),
}


@pytest.mark.parametrize("what", CANNOT_BE_TOLD)
def test_what_content_does_not_tell_is_said_so(what: str) -> None:
    with pytest.raises(Unhashable):
        content_key(CANNOT_BE_TOLD[what])
    assert pass_key(CANNOT_BE_TOLD[what]) is None


def test_imports_inside_of_a_function_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    written = ModuleType("written_by_hand")
    exec("LIMIT = 1\ndef asked(): return LIMIT\nunseen = 1", vars(written))
    monkeypatch.setitem(sys.modules, "written_by_hand", written)

    def reads() -> int:
        import written_by_hand  # type: ignore[import-not-found]

        return int(written_by_hand.asked())

    def draws() -> float:
        import random as r

        return r.random()

    before = content_key(reads)
    written.LIMIT = 2  # type: ignore[attr-defined]
    assert content_key(reads) != before
    with pytest.raises(Unhashable):
        content_key(draws)


def test_of_a_module_only_what_is_asked_of_it_counts() -> None:
    written = ModuleType("written_by_hand")
    exec("import random\nLIMIT = 1\ndef asked(): return LIMIT\nother = 1", vars(written))

    def reads() -> int:
        return int(written.asked())

    holder: dict[str, Any] = {"written": written, "__name__": "held"}
    exec("def reads(): return written.asked()", holder)
    before = content_key(holder["reads"])
    written.other = 2  # type: ignore[attr-defined]
    assert content_key(holder["reads"]) == before
    written.LIMIT = 2  # type: ignore[attr-defined]
    assert content_key(holder["reads"]) != before
    with pytest.raises(Unhashable):  # a closure holds the module as a value, with all that is in it
        content_key(reads)


def test_an_iterator_of_helpers_is_not_told() -> None:
    def each() -> Iterator[int]:
        yield 1

    assert content_key(each) and content_key((each, 1)) != content_key((each, 2))
    with pytest.raises(Unhashable):
        content_key(each())


def test_a_class_that_type_makes_is_known_by_its_code() -> None:
    """Such a class of an abstract one states the module `abc`, which does not hold it."""

    def of(limit: int) -> object:
        return type("Made", (Abstract,), {"answer": lambda self: limit})()

    assert type(of(1)).__module__ == "abc"
    assert content_key(of(1)) == content_key(of(1)) != content_key(of(2))
