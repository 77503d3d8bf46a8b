"""Machine code leaves memory with the last compilation that uses it, and not before."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import explorer
from explorer.codegen.cpu.jit import MOST_FUNCTIONS, JitMemory, object_of, optimised
from explorer.codegen.cpu.object_code import MachineCode, compile_cfunc, in_memory
from explorer.codegen.cpu.print import DECORATOR, HEADER
from explorer.codegen.emit import _codes
from explorer.errors import KernelCompileError
from explorer.process.garbage import rare_collections
from tests.tile.programs import TARGET


@pytest.fixture(autouse=True, scope="module")
def only_what_is_made_here_is_collected() -> Iterator[None]:
    """To look through what all tests before left takes ten seconds each time, and to count it, as
    each block of rare collections would that is not inside of one, a third of one.
    """
    with rare_collections():
        yield


def source_of(number: int) -> str:
    return "\n".join(
        (*HEADER, "", DECORATOR, "def kernel(first, last, args):",
         "    y = argument(args, 0)", f"    st_int64(y, 0, {number})", "")
    )  # fmt: skip


def ran(code: MachineCode) -> int:
    y = np.zeros(1, np.int64)
    args = np.array([y.ctypes.data], np.int64)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    kind(code.address)(0, 1, args.ctypes.data)
    return int(y[0])


def now() -> tuple[int, int]:
    gc.collect()
    return in_memory()


def test_code_that_nothing_uses_leaves_memory_and_may_come_again() -> None:
    before = now()
    for _ in range(3):
        made = [compile_cfunc(source_of(n), TARGET) for n in range(2 * MOST_FUNCTIONS)]
        assert [ran(code) for code in made] == list(range(2 * MOST_FUNCTIONS))
        functions, size_bytes = now()
        assert functions >= before[0] + MOST_FUNCTIONS and size_bytes > before[1]
        del made
    assert now()[0] <= before[0] + MOST_FUNCTIONS  # the last engine may have others


def test_code_that_is_used_stays_while_all_about_it_goes() -> None:
    kept = compile_cfunc(source_of(-1), TARGET)
    for n in range(3 * MOST_FUNCTIONS):
        compile_cfunc(source_of(n), TARGET)
    gc.collect()
    assert ran(kept) == -1 and compile_cfunc(source_of(-1), TARGET) is kept


def test_one_copy_serves_all_that_use_it() -> None:
    code = object_of(optimised("define i64 @one() { ret i64 1 }", TARGET), TARGET)
    shelves = JitMemory()
    first, again = (shelves.load(code, "one", shared=True) for _ in range(2))
    assert first == again and shelves.functions == 1
    shelves.release(again[1], "one")
    assert shelves.functions == 1
    shelves.release(first[1], "one")
    assert shelves.functions == shelves.size_bytes == 0


def test_names_that_do_not_say_what_they_are_lie_apart() -> None:
    shelves = JitMemory()
    texts = (f"define i64 @it() {{ ret i64 {n} }}" for n in (1, 2))
    placed = [
        shelves.load(object_of(optimised(t, TARGET), TARGET), "it", shared=False) for t in texts
    ]
    kind = ctypes.CFUNCTYPE(ctypes.c_int64)
    assert [kind(address)() for address, _ in placed] == [1, 2]


def test_an_object_without_its_function_is_refused() -> None:
    code = object_of(optimised("define i64 @it() { ret i64 1 }", TARGET), TARGET)
    with pytest.raises(KernelCompileError, match="clear the cache"):
        JitMemory().load(code, "other", shared=True)


def compiled(n: int) -> explorer.Compilation:
    @explorer.trace
    def scaled(x):  # type: ignore[no-untyped-def]
        return x * float(n) + 1.0

    return explorer.compile(scaled(x=explorer.tensor("float32", 40 + n)))


@pytest.mark.exhaustive
def test_many_compilations_keep_no_more_code_than_the_last_of_them() -> None:
    before = now()[0]
    last = compiled(0)
    gone = weakref.ref(last)
    for n in range(1, 60):
        last = compiled(n)
        last.run({"x": np.ones(40 + n, np.float32)})
    kept = len(_codes)
    assert gone() is None
    assert now()[0] <= before + kept + 2 * MOST_FUNCTIONS
    y = last.run({"x": np.ones(99, np.float32)})
    assert np.allclose(next(iter(y.values())), 60.0)
