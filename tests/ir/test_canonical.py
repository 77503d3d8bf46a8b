"""Kernels that differ in names alone are one kernel: tiled once, compiled once."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import explorer
from explorer.codegen.build import build_kernel, print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, evaluate_dim, floor_div, symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ir.kernels.canonical import canonical, canonical_symbols, with_symbols
from explorer.roller.cached_tilings import best_tilings
from tests.codegen.running import run_kernel
from tests.roller.test_policy import DEVICE
from tests.tile.programs import HERE

TILING = Tiling((("i", 4),))


def doubled(rows: Dim, columns: Dim) -> Kernel:
    """`y[i, j] = x[i, j] + x[i, j]`."""
    x = Read("x", (var("i"), var("j")))
    made = Compute("y", (Axis("i", rows), Axis("j", columns)), apply("add", x, x))
    specs = (TensorSpec("x", (rows, columns)), TensorSpec("y", (rows, columns)))
    return Kernel("double", specs, (made,), ("x",), ("y",))


def env_of(*names: str) -> ShapeEnv:
    """Symbols with the bounds 1 .. 64, 1 .. 128, ..."""
    return ShapeEnv(tuple(SymbolBound(n, 1, 64 << k, 8 << k) for k, n in enumerate(names)))


def test_symbols_are_numbered_in_the_order_in_which_they_stand() -> None:
    kernel = doubled(symbol("zeta"), 2 * symbol("alpha") + 1)
    made, env, values = canonical_symbols(kernel, env_of("alpha", "zeta", "other"))
    assert values == {"s0": symbol("zeta"), "s1": symbol("alpha")}
    assert made.shape("y") == (symbol("s0"), 2 * symbol("s1") + 1)
    assert env == ShapeEnv((SymbolBound("s0", 1, 128, 16), SymbolBound("s1", 1, 64, 8)))


def test_symbols_that_change_places_do_not_fall_together() -> None:
    kernel = doubled(symbol("s1"), symbol("s0"))
    made, env, _ = canonical_symbols(kernel, env_of("s0", "s1"))
    assert made.shape("y") == (symbol("s0"), symbol("s1"))
    assert [b.high for b in env.symbols] == [128, 64]
    back = {symbol("s0"): symbol("s1"), symbol("s1"): symbol("s0")}
    assert with_symbols(made, back) == kernel


def test_a_quotient_is_one_symbol_and_a_number_below_zero_is_added_to_it() -> None:
    n, env = symbol("n"), env_of("n")
    half, inside = floor_div(n, 2), floor_div(n - 7, 3) + 1  # from -1 on
    made, known, values = canonical_symbols(doubled(half * 4, inside), env)
    s0, s1 = symbol("s0"), symbol("s1")
    assert made.shape("y") == (4 * s0, s1 - 1)
    assert known.of("s1") == SymbolBound("s1", 0, 21, 1 + 1)
    for size in (1, 2, 7, 8, 64):
        at = {name: evaluate_dim(dim, {"n": size}) for name, dim in values.items()}
        assert [evaluate_dim(d, at) for d in made.shape("y")] == [
            size // 2 * 4,
            (size - 7) // 3 + 1,
        ]
    back = {symbol(name): dim for name, dim in values.items()}
    assert with_symbols(made, back) == doubled(half * 4, inside)


def test_a_number_that_is_added_to_a_quotient_is_added_to_its_greatest_value_too() -> None:
    env = ShapeEnv((SymbolBound("n", 1, 9, 2),))
    quotient = floor_div(symbol("n") - 7, 3)  # from -2 to 0
    made, known, values = canonical_symbols(doubled(quotient + 2, 3), env)
    assert (known.of("s0").low, known.of("s0").high) == (0, 2)
    assert evaluate_dim(values["s0"], {"n": 9}) == 2 and made.shape("y")[0] == symbol("s0")


def test_a_quotient_that_may_be_any_number_stays_what_it_is() -> None:
    gap = floor_div(symbol("n") - symbol("m"), 8)
    made, _, values = canonical_symbols(doubled(gap, 3), ShapeEnv())
    assert values == {"s0": symbol("m"), "s1": symbol("n")}
    assert made.shape("y")[0] == floor_div(symbol("s1") - symbol("s0"), 8)


def test_images_of_all_sizes_have_one_kernel() -> None:
    n = symbol("n")
    one = print_kernel(doubled(n, floor_div(n - 1, 2) + 1), TILING, env_of("n"), HERE)
    two = print_kernel(doubled(floor_div(n, 4), floor_div(n, 8) + 1), TILING, env_of("n"), HERE)
    assert one[0] == two[0]
    sizes = {"n": 64}
    assert [evaluate_dim(a.elements, sizes) for a in two[2] if a.kind == "dim"] == [16, 8]


def test_a_kernel_without_symbols_stays_what_it_is() -> None:
    kernel = doubled(3, 5)
    assert canonical_symbols(kernel, env_of("a")) == (kernel, ShapeEnv(), {})


def test_kernels_that_differ_in_the_names_of_symbols_have_one_source_and_their_own_arguments() -> (
    None
):
    one = print_kernel(doubled(symbol("n"), symbol("m")), TILING, env_of("n", "m"), HERE)
    two = print_kernel(
        doubled(symbol("batch.1"), symbol("a")), TILING, env_of("batch.1", "a"), HERE
    )
    assert one[0] == two[0]
    assert [a.name for a in one[2] if a.kind == "dim"] == ["n", "m"]
    assert [a.name for a in two[2] if a.kind == "dim"] == ["batch.1", "a"]
    assert one[1].tasks({"n": 9, "m": 2}) == two[1].tasks({"batch.1": 9, "a": 2}) == 3


def test_they_are_compiled_once_and_each_computes_with_its_own_symbols() -> None:
    kernels = [doubled(symbol(a), symbol(b)) for a, b in (("p", "q"), ("q", "p"))]
    envs = [env_of("p", "q"), env_of("q", "p")]
    codes = [build_kernel(k, TILING, e, HERE) for k, e in zip(kernels, envs)]
    assert codes[0].key == codes[1].key
    x = np.arange(15, dtype=np.float32)
    for kernel, env, sizes in zip(kernels, envs, ({"p": 3, "q": 5}, {"p": 5, "q": 3})):
        found = run_kernel(kernel, TILING, {"x": x.reshape(3, 5)}, sizes, env)
        np.testing.assert_array_equal(found.ravel(), 2 * x)


def test_symbols_with_other_bounds_are_tiled_for_themselves() -> None:
    kernel, _ = canonical(doubled(symbol("n"), 64))
    other, _ = canonical(doubled(symbol("m"), 64))
    with explorer.counters.delta() as did:
        small = best_tilings(kernel, DEVICE, env_of("n"), {"n": 4}, 3)
        same = best_tilings(other, DEVICE, env_of("m"), {"m": 4}, 3)
        assert same is small and did.cache_hits_memory
        large = best_tilings(other, DEVICE, env_of("m"), {"m": 4096}, 3)
    assert large[0].terms != small[0].terms


FINDS = """
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import *
from explorer.ir.kernels.canonical import text_of
names = ("w0", "w1", "x2", "w3", "w4")
print(text_of(Kernel("k", (), (), names, "y", frozenset(names))))
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_kernel_is_known_again_by_a_process_that_hashes_otherwise(seed: str) -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-c", FINDS],
            env={**os.environ, "PYTHONHASHSEED": s},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for s in ("0", seed)
    ]
    assert texts[0] == texts[1] != ""
