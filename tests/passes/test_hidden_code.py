"""Code that a function reaches by a detour belongs to its key, or the function has none."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import operator
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from explorer.passes.content import Unhashable, content_key

LIMIT = 1


def module(name: str, text: str, monkeypatch: pytest.MonkeyPatch, file: str = "") -> ModuleType:
    """A loaded module of this source; of an installed package if it has a file there."""
    made = ModuleType(name)
    if file:
        made.__file__ = file
    exec(text, vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    return made


def installed(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module(name, text, monkeypatch, f"{sysconfig.get_path('purelib')}/{name}.py")


def test_a_package_that_is_imported_with_its_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    package = module("mine", "LIMIT = 1", monkeypatch)
    package.inner = module("mine.inner", "", monkeypatch)  # type: ignore[attr-defined]

    def reads() -> Any:
        import mine.inner  # type: ignore[import-not-found]

        return mine.LIMIT

    before = content_key(reads)
    package.LIMIT = 2  # type: ignore[attr-defined]
    assert content_key(reads) != before


def by_import() -> Any:
    import numpy

    return numpy.random.rand()


def by_part() -> Any:
    from numpy import random

    return random.rand()


def by_closure() -> Callable[[], Any]:
    numpy = np
    return lambda: numpy.load("x.npy")


def by_local() -> Any:
    numpy = np
    return numpy.fromfile("x")


def handed(numpy: Any) -> Any:
    return numpy.random.rand()


look = eval
RESOLVED: dict[str, Callable[..., Any]] = {
    "a module that the function imports": by_import,
    "a part that the function imports": by_part,
    "a module in a closure": by_closure(),
    "a module under a local name": by_local,
    "a module as an argument": lambda: handed(np),
    "another name of eval": lambda: look("LIMIT"),
    "eval of builtins": lambda: builtins.eval("LIMIT"),
    "a default": lambda get=globals: get()["LIMIT"],
    "a partial": functools.partial(eval, "LIMIT"),
}
UFUNC = np.frompyfunc(operator.add, 2, 1)


@pytest.mark.parametrize("what", RESOLVED)
def test_what_is_reached_by_a_detour_is_refused(what: str) -> None:
    with pytest.raises(Unhashable):
        content_key(RESOLVED[what])


def test_a_ufunc_of_a_function_is_refused() -> None:
    with pytest.raises(Unhashable):
        content_key(UFUNC)
    assert content_key(np.add) != content_key(np.subtract)


def test_a_function_in_c_of_a_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INDEX, "__module__", "mine")
    with pytest.raises(Unhashable):
        content_key(INDEX)


INDEX: Any = sys.modules["_operator"].index


def test_random_numbers_of_other_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    acme = installed(
        "acme", "def randperm(): ...\ndef read_csv(): ...\ndef add(): ...", monkeypatch
    )
    assert content_key(acme.add)
    for name in ("randperm", "read_csv"):
        with pytest.raises(Unhashable):
            content_key(getattr(acme, name))


def test_functions_on_one_line_of_an_installed_package_are_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acme = installed("acme", "table = [lambda x: x + 1, lambda x: x + 2]", monkeypatch)
    one, two = acme.table
    assert content_key(one) != content_key(two)


def test_a_class_made_by_an_installed_package_is_what_it_was_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "def make(n):\n    class Made:\n        limit = n\n        def asked(self): return n\n"
    acme = installed("acme", f"{text}    return Made\n", monkeypatch)
    assert content_key(acme.make(1)) != content_key(acme.make(2))
    assert content_key(acme.make(1)()) != content_key(acme.make(2)())
    assert content_key(acme.make(1)) == content_key(acme.make(1))


def test_a_users_module_with_the_name_of_a_standard_one_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "def mean(x): return {}"
    file = str(tmp_path / "statistics.py")
    keys = [
        content_key(module("statistics", text.format(n), monkeypatch, file).mean) for n in (1, 2)
    ]
    assert keys[0] != keys[1]


class Colour(Enum):
    RED = 1


@dataclass
class Noted:
    limit: int = field(default=1, metadata={"most": LIMIT})


def test_an_attribute_of_an_enum_member_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_key(Colour.RED)
    monkeypatch.setattr(Colour.RED, "limit", 2, raising=False)
    assert content_key(Colour.RED) != before


def test_metadata_of_fields_count() -> None:
    made = [
        dataclasses.make_dataclass("A", [("x", int, field(metadata={"most": n}))]) for n in (1, 2)
    ]
    assert content_key(made[0]) != content_key(made[1])
    assert content_key(Noted)


def test_a_dunder_name_of_a_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = module("mine", "__limit__ = 1", monkeypatch)
    before = content_key(mine)
    mine.__limit__ = 2  # type: ignore[attr-defined]
    assert content_key(mine) != before


def test_types_of_elements_have_keys() -> None:
    keys = [content_key(np.dtype(name)) for name in ("f4", "f8", "i4", [("x", "f4")])]
    assert len(set(keys)) == 4
