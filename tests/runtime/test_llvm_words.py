"""The word language of the interpreter: what it means is what Python means by it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.cpu.jit import JitMemory, object_of, optimised
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.llvm_words import WordFunction, inlined, module_text, words
from tests.examples import examples
from tests.tile.programs import TARGET

SEVEN = 7
SHELVES = JitMemory()
Whole = Callable[[int, int], int]


def arithmetic(a, b):  # type: ignore[no-untyped-def]
    x, y = a + b * 3, a - b
    x, y = y, x
    return x * 2 - y // 5 + y % SEVEN + max(a, b) - min(a, -b) + (x & 255) - isa.DONE % 11


def branches(a, b):  # type: ignore[no-untyped-def]
    """Branches and conditions."""
    if (a > b and not (a == 3 or b == 4)) or b < -5:
        return 1 if b else 2
    elif a == b or a <= -9:
        a += 4
    else:
        return a if a != 2 else -b
    return a * (a >= b)


def loops(a, b):  # type: ignore[no-untyped-def]
    total = 0
    for n in range(a):
        for m in range(n, b):
            if m * n > 40:
                break
            total += m
            n += 1
        if total > 500:
            return total
    while True:
        total -= 3
        if total < 100:
            break
    while total % SEVEN != 0:
        total += 1
    return total


@words
def helper(a, b):  # type: ignore[no-untyped-def]
    if a > b:
        return a - b
    return recursive(a + 1, b)


@inlined
def recursive(a, b):  # type: ignore[no-untyped-def]
    return b - a


def calls(a, b):  # type: ignore[no-untyped-def]
    return helper(a, b) * 10 + helper(b, a)


def compiled(function: Callable[..., int], symbol: str) -> Whole:
    text = module_text(WordFunction(function, inline=False), symbol)
    address, _ = SHELVES.load(object_of(optimised(text, TARGET), TARGET), symbol, shared=True)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)


def by_hand(a: int, b: int) -> int:
    def one(x: int, y: int) -> int:
        return x - y if x > y else y - x - 1

    return one(a, b) * 10 + one(b, a)


CASES: tuple[tuple[Callable[..., int], Callable[..., int]], ...] = (
    (arithmetic, arithmetic), (branches, branches), (loops, loops), (calls, by_hand),
)  # fmt: skip


@pytest.fixture(scope="module")
def machine() -> list[tuple[Whole, Callable[..., int]]]:
    return [(compiled(f, f"words_{f.__name__}"), python) for f, python in CASES]


@given(st.integers(-60, 60), st.integers(-60, 60))
@settings(max_examples=examples(300))
def test_machine_code_does_what_python_does(
    machine: list[tuple[Whole, Callable[..., int]]], a: int, b: int
) -> None:
    for native, python in machine:
        assert native(a, b) == python(a, b)


def unknown_call(a):  # type: ignore[no-untyped-def]
    return print(a)


def unknown_statement(a):  # type: ignore[no-untyped-def]
    del a


def unknown_operator(a):  # type: ignore[no-untyped-def]
    return a**2


@pytest.mark.parametrize("function", [unknown_call, unknown_statement, unknown_operator])
def test_what_the_language_has_not_is_refused(function: Callable[..., int]) -> None:
    with pytest.raises(TypeError, match="the interpreter's language has no"):
        module_text(WordFunction(function, inline=False), "refused")


def test_the_interpreter_is_valid_code() -> None:
    from explorer.runtime.device_program.work_stealing import entry

    module = llvm.parse_assembly(module_text(entry, "interpreter"))
    module.verify()
