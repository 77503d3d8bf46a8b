"""Constants of a program are told apart by what they hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from explorer.ir import program
from explorer.ir.program import Constant
from explorer.ir.types import Tensor


def test_a_large_constant_is_told_apart_by_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Constant(np.arange(8)).digest
    monkeypatch.setattr(program, "CHUNK_BYTES", 64)
    assert Constant(np.arange(8)).digest == small  # of one part
    array = np.arange(40)
    found = {Constant(array).digest, Constant(array.reshape(8, 5)).digest}
    for place in range(40):
        other = array.copy()
        other[place] = -1
        found.add(Constant(other).digest)
    assert len(found) == 42 and Constant(array.copy()).digest in found


AT_EXIT = """
import numpy as np
from explorer.cache import background_writer
from explorer.ir import program

program.CHUNK_BYTES = 64
constant = program.Constant(np.arange(40))
background_writer.later(lambda: print(constant.digest))
"""


def test_a_large_constant_is_hashed_while_the_interpreter_shuts_down() -> None:
    """A short process stores its results at exit, when no thread can be started."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
    assert "Error" not in done.stderr and len(done.stdout.strip()) == 32


def test_a_derived_constant_is_computed_where_it_is_read_and_shared_by_its_readers() -> None:
    calls: list[int] = []

    def double(array: np.ndarray) -> np.ndarray:
        calls.append(array.size)
        return 2 * array

    source = Constant(np.arange(6.0).reshape(2, 3))
    kind = Tensor((2, 3), "float64")
    derived = source.derived("double", kind, double)
    assert source.derived("double", kind, double) is derived
    assert (derived.type, derived.shape, derived.size, derived.nbytes) == (kind, (2, 3), 6, 48)
    assert not calls and derived.held_bytes == 0
    array = derived.array
    assert derived.array is array and not array.flags.writeable and calls == [6]
    np.testing.assert_array_equal(array, 2 * source.array)
    assert derived == Constant(2 * source.array)
    del array
    assert derived.array.sum() == 30 and calls == [6, 6]


def test_constants_are_derived_from_several() -> None:
    a, b = Constant(np.arange(4)), Constant(np.ones(4, np.int64))
    total = a.derived("add", Tensor((4,), "int64"), np.add, (b,))
    assert total.array.tolist() == [1, 2, 3, 4]
    other = a.derived("add", Tensor((4,), "int64"), np.add, (Constant(np.zeros(4, np.int64)),))
    assert other.array.tolist() == [0, 1, 2, 3]


def test_a_constant_derived_from_a_number_is_a_number() -> None:
    half = Constant(np.array(0.5, np.float16))
    wide = half.derived("wide", Tensor((), "float32"), lambda a: a.astype(np.float32))
    assert wide.array.shape == () and wide.array == np.float32(0.5)
