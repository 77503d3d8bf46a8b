"""Rows that a loop reads where they lie stay kernels of their own, which nothing runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer
from explorer.compiler.compilation import Compilation
from explorer.ir.affine import Affine
from explorer.ir.kernel import reads


def gathers(compiled: Compilation) -> set[str]:
    """The kernels that are launched and load at an index from memory."""
    found = set()
    xs = np.ones((7, 5), np.float32)
    for launch in compiled.executable._bound({"xs": xs}, {}).launches:
        for operator in launch.operators:
            computes = operator.call.kernel.computes
            indices = [i for c in computes for r in reads(c.expr) for i in r.index]
            if any(not isinstance(i, Affine) for i in indices):
                found.add(operator.name)
    return found


def test_a_row_by_the_number_of_the_trip_is_no_gather_in_what_reads_it() -> None:
    @explorer.trace
    def run(xs: explorer.tensor("float32", "t", 5)) -> Any:
        def step(h: Any, x: Any) -> Any:
            after = explorer.np.tanh(h * 0.5 + x * x)
            return after, after

        return explorer.scan(step, xs[0] * 0, xs)

    compiled = explorer.compile(run)
    assert not gathers(compiled)
    xs = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    h, rows = np.zeros(5, np.float32), []
    for x in xs:
        h = np.tanh(h * np.float32(0.5) + x * x)
        rows.append(h)
    last, found = compiled.run({"xs": xs}).values()
    np.testing.assert_allclose(last, h, 1e-6)
    np.testing.assert_allclose(found, np.stack(rows), 1e-6)


def test_a_row_by_a_number_of_the_state_is_welded_into_what_reads_it() -> None:
    """No pointer can follow it, and a kernel that copied it would cost more than a gather."""

    @explorer.trace
    def run(xs: explorer.tensor("float32", "t", 5)) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, at = carry
            return (explorer.np.tanh(h * 0.5 + xs[at]), 6 - at), h

        return explorer.scan(step, (xs[0] * 0, 1), xs)

    compiled = explorer.compile(run)
    assert len(gathers(compiled)) == 1
    assert not any(b.kernel_call.kernel.name == "gather" for b in compiled.program.kernel_calls)
