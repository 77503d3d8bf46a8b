"""What is written is read back as it was: equal, and of the same types."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer.ir.affine import Affine
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import floor_div, symbol, sympy
from explorer.ir.kernel import Apply, Const, IndexValue, Read
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program
from explorer.stored.serialize import Unreadable, Unwritable, deserialize, serialize
from tests.examples import examples
from tests.strategies import layer_programs, operator_programs

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=9)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.frozensets(st.text(max_size=3), max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.builds(Candidate, st.text(), inner),
    ),
    max_leaves=20,
)


def is_same(a: Any, b: Any) -> bool:
    """Equal in value and type; not a number is itself, and a zero has its sign."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and repr(a) == repr(b))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(v, b[k]) for k, v in a.items())
    if isinstance(a, Candidate):
        return is_same((a.label, a.value), (b.label, b.value))
    return bool(a == b)


@pytest.mark.exhaustive
@settings(max_examples=examples(200), **QUIET)
@given(VALUES)
def test_any_value_is_read_as_it_was(value: Any) -> None:
    assert is_same(deserialize(serialize(value)), value)


def known(program: Program) -> dict[str, object]:
    return dict(program.constants.items())


def round_trip(program: Program) -> None:
    data = serialize(program, known(program))
    found = deserialize(data, known(program))
    assert found == program and print_program(found) == print_program(program)
    assert serialize(found, known(program)) == data


@settings(max_examples=examples(40), **QUIET)
@given(layer_programs.programs())
def test_random_programs_are_read_as_they_were(program: Program) -> None:
    round_trip(program)


@settings(max_examples=examples(40), **QUIET)
@given(operator_programs.programs())
def test_random_programs_with_symbols_and_control_flow_are_read_as_they_were(
    program: Program,
) -> None:
    round_trip(program)


@settings(max_examples=8, **QUIET)
@given(layer_programs.programs(most=4))
def test_random_programs_with_all_their_decisions_are_read_as_they_were(program: Program) -> None:
    round_trip(explorer.compile(explorer.Model("random", "", program), until="planned").program)


N, M = symbol("n"), symbol("m")


@pytest.mark.parametrize(
    "value",
    [
        Stage.ROLLED,
        Tiling((("i0", 4),), Micro(3, 2, 8), True),
        Const(-0.0), Const(float("nan")), Const(float("-inf")), Const(1), Const(True), Const(N * 2),
        Affine((("i", N), ("j", 3)), M + 1),
        Apply("add", (Read("x", (IndexValue(Affine()),), -0.0), Const(2.5, "float64"))),
        (N, M * N + 3, N**2, floor_div(N + 7, 8)),
        (sympy.Max(N, M), sympy.Min(N, 3), sympy.Mod(N, 4)),
        (np.float32(0.1), np.int64(7), np.bool_(True)),
    ],
    ids=str,
)  # fmt: skip
def test_what_programs_hold_is_read_as_it_was(value: Any) -> None:
    found = deserialize(serialize(value))
    assert repr(found) == repr(value) and type(found) is type(value)
    assert "nan" in repr(value) or found == value


def test_equal_parts_are_one_object() -> None:
    first, second = deserialize(serialize((Tiling((("i", 4),)), Tiling((("i", 4),)))))
    assert first is second


def test_what_its_reader_has_is_not_written() -> None:
    big = Tiling(tuple((f"axis{n}", n) for n in range(1000)))
    data = serialize((big, 1), {"big": big})
    assert len(data) < 300 and deserialize(data, {"big": big})[0] is big


@pytest.mark.parametrize("value", [len, lambda: 1, object(), np.zeros(3), {1, 2}, [1], N > M, 1j])
def test_what_is_no_frozen_data_is_refused(value: Any) -> None:
    with pytest.raises(Unwritable):
        serialize((1, value))


@pytest.mark.parametrize(
    "kind",
    ["os.system", "builtins.eval", "explorer.ir.program.Constant", "Program", "subprocess.Popen"],
)
def test_nothing_but_the_vocabulary_is_ever_made(kind: str) -> None:
    data = serialize(Tiling()).replace(b"explorer.ir.decisions.tiling.Tiling", kind.encode())
    with pytest.raises(Unreadable, match=re.escape(kind)):
        deserialize(data)


@settings(max_examples=examples(200), **QUIET)
@given(st.data())
def test_damaged_bytes_are_unreadable_or_another_value(data: Any) -> None:
    whole = bytearray(serialize((Tiling((("i", 4),)), N + 1, frozenset("ab"))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        deserialize(bytes(whole))
