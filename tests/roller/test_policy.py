"""Roller's tilings: legal, unique, in order, the same each time, and found without running
anything.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.devices.model import Device, MemoryLevel
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, SymbolBound, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.process.counters import counters
from explorer.roller import Options, Roll
from explorer.roller.cached_tilings import best_tilings
from explorer.roller.policy import candidates
from explorer.roller.tile_order import in_order, why_first
from explorer.roller.weigh_tiles import private_bytes, refusal, weigh
from explorer.tile.lowering.lower import lower
from tests.codegen.cases import CASES, ENV, Case, conv, linear

DEVICE = Device(
    "a-cpu", "cpu", 2, 16, 32, 2.0, 4.0,
    (
        MemoryLevel("L1", 48 << 10, 400.0, 64),
        MemoryLevel("L2", 1 << 20, 120.0, 64),
        MemoryLevel("L3", 32 << 20, 29.0, 64, True),
        MemoryLevel("DRAM", None, 14.0, 64, True),
    ),
)  # fmt: skip
SIZES = {"batch": 3, "seq": 37}


def of(case: Case) -> tuple[Kernel, list]:  # type: ignore[type-arg]
    kernel = normalise(case.kernel)
    return kernel, list(candidates(kernel, DEVICE, ENV, SIZES))


@pytest.mark.few(10)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_kernel_has_a_legal_tiling_and_all_that_is_yielded_as_legal_is(case: Case) -> None:
    kernel, found = of(case)
    legal = [c for c in found if not c.refused]
    assert legal
    for c in legal:
        assert not refusal(kernel, c.value, DEVICE, ENV, SIZES)
        program = lower(kernel, c.value, ENV)
        scratch = [b for b in program.buffers if b.kind == "scratch"]
        total = sum(evaluate_dim(b.size, SIZES) * ITEM_BYTES[b.dtype] for b in scratch)
        assert total <= private_bytes(DEVICE)
        m = c.value.micro
        assert m.registers <= DEVICE.registers


@pytest.mark.few(8)
@pytest.mark.parametrize("case", CASES[:20], ids=lambda c: c.name)
def test_tilings_are_unique_and_the_same_each_time(case: Case) -> None:
    _, first = of(case)
    _, second = of(case)
    assert first == second
    assert len({c.value for c in first}) == len(first)


def test_the_first_is_as_good_as_the_best_and_refused_ones_come_last_with_a_reason() -> None:
    _, found = of(conv(28, 28, 64, 96, 3, 1, 1))
    legal = [c for c in found if not c.refused]
    assert found[: len(legal)] == legal
    assert legal[0].cost_us <= 1.02 * min(c.cost_us for c in legal)
    assert all(c.refused for c in found[len(legal) :])


def test_constructing_runs_and_compiles_no_kernel() -> None:
    with counters.delta() as did:
        of(linear(128, 384, 1536, "erf", {}))
    assert did.kernel_compiles == 0 and did.runs == 0


def test_a_kernel_is_tiled_alike_whatever_symbols_stand_elsewhere_in_its_program() -> None:
    kernel = normalise(linear(128, 384, 1536, "relu", {}).kernel)
    other = ShapeEnv((*ENV.symbols, SymbolBound("elsewhere", 1, None, 77)))
    first = best_tilings(kernel, DEVICE, ENV, ENV.hints, 3)
    assert best_tilings(kernel, DEVICE, other, other.hints, 3) is first


def test_a_cost_is_the_sum_of_named_terms() -> None:
    _, found = of(linear(128, 384, 1536, "relu", {}))
    assert {"compute", "task"} <= {name for name, _ in found[0].terms}
    assert found[0].cost_us == pytest.approx(sum(us for _, us in found[0].terms))


def program_of(case: Case) -> Program:
    kernel = case.kernel
    args = tuple(Var(n, Tensor(kernel.shape(n), kernel.dtype(n))) for n in kernel.inputs)
    result = Var("out", Tensor(kernel.shape("y"), kernel.dtype("y")))
    body = (Binding((result,), KernelCall(kernel, args), frozenset({"op"})),)
    return Program((Function("main", args, body, (result,)),), env=ENV)


def test_a_tile_set_by_hand_is_taken_and_marked() -> None:
    program = program_of(linear(128, 64, 96, "relu", {}))
    pinned = Tiling((("e0", 32),), Micro(8, 3))
    decision = Roll(DEVICE, Options(pinned=(("out", pinned),)))(program).decisions.tiling("out")
    assert decision is not None and decision.pinned and decision.chosen == pinned


@pytest.mark.parametrize(
    ("tiling", "rule"),
    [
        (Tiling((("e1", 20),), Micro(8, 2)), "packed panel"),
        (Tiling((), Micro(20, 4)), "vector registers"),
        (Tiling((("z", 2),), Micro(8, 2)), "no axis z"),
    ],
)
def test_an_illegal_tile_names_the_rule_that_it_breaks(tiling: Tiling, rule: str) -> None:
    program = program_of(linear(128, 64, 96, "relu", {}))
    with pytest.raises(BadOption, match=rule):
        Roll(DEVICE, Options(pinned=(("out", tiling),)))(program)


def test_of_two_as_good_register_tiles_the_one_that_reads_less_from_l2_comes_first() -> None:
    near, _, *far = DEVICE.levels
    levels = (near, MemoryLevel("L2", 2 << 20, 144.0, 64), *far)
    large = replace(DEVICE, clock_ghz=3.0, levels=levels)
    kernel = normalise(linear(128, 1536, 384, "relu", {}).kernel)
    cut = ((kernel.computes[-1].axes[-1].name, 96),)
    tilings = (Tiling(cut, Micro(4, 6)), Tiling(cut, Micro(8, 3)))  # as many products in a step
    wide, tall = (weigh(kernel, t, large, ENV, {}) for t in tilings)
    assert wide.cost_us < tall.cost_us < 1.02 * wide.cost_us
    assert next(in_order([wide, tall], kernel, large, ENV, {}, 2)) == tall
    assert why_first(tall, wide, kernel, large, {}) == "its register tile reads fewer columns"
    assert why_first(wide, wide, kernel, large, {}) == ""
