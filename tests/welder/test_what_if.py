"""What if: every legal move of a small model is predicted at once and computes the same; the others
are refused in a sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compile_model
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.stage import Stage
from explorer.measure.this_cpu import this_cpu
from explorer.tuning.compare import compare
from explorer.welder import Options as WelderOptions
from explorer.welder.regroup import Kernels, tensor_of
from explorer.welder.tiles.level_tiles import reuse_bytes
from explorer.welder.what_if import Move, WhatIf, group_of, inside_of
from tests.tuning.models import written
from tests.welder.test_weld import DATA

LEVELS = ("register", "L1", "L2", "L3", "DRAM")
ROWS, WIDTH, KEYS = 192, 48, 512


def attention(folder: Path) -> Any:
    """Scores, a softmax, a product, and an epilogue that a norm follows."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["mixed"]),
        helper.make_node("Add", ["mixed", "b"], ["moved"]),
        helper.make_node("Relu", ["moved"], ["y"]),
    ]
    weights = {
        "k": random.standard_normal((WIDTH, KEYS)).astype(np.float32),
        "v": random.standard_normal((KEYS, WIDTH)).astype(np.float32),
        "b": random.standard_normal(WIDTH).astype(np.float32),
    }
    return written(folder, nodes, {"x": [ROWS, WIDTH]}, ["y"], weights)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compilation:
    return compile_model(attention(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def values(compiled: Compilation) -> tuple[str, ...]:
    before = compiled.snapshot("fuse (Welder)").before
    return tuple(b.var.name for b in before.kernel_calls)[:-1]


def every_move(c: Compilation, values: tuple[str, ...]) -> list[Move[Compilation]]:
    what_if = WhatIf(c)
    return [what_if.connect(value, level) for value in values for level in what_if.levels]


def test_levels_are_those_of_the_machine(compiled: Compilation) -> None:
    assert WhatIf(compiled).levels == LEVELS


def test_every_move_is_predicted_or_refused_in_words(
    compiled: Compilation, values: tuple[str, ...]
) -> None:
    moves = every_move(compiled, values)
    assert len(moves) == len(values) * len(LEVELS)
    for move in moves:
        assert (move.after is None) == (move.refused is not None)
        assert move.before.predicted_us > 0 and move.before.levels[-1].level == "DRAM"
        if move.refused is not None:
            assert len(move.refused.text) > 15 and move.refused.value != move.refused.limit
        if move.after is not None:
            assert move.after.predicted_us > 0 and move.after.dram_bytes > 0
            assert LEVELS.index(move.reached) <= LEVELS.index(move.level) or move.reached != "DRAM"


@pytest.mark.exhaustive
def test_every_legal_move_computes_the_same(compiled: Compilation, values: tuple[str, ...]) -> None:
    inputs = compiled.random_inputs()
    wanted = compiled.run(inputs)["y"]
    legal = [m for m in every_move(compiled, values) if m.refused is None]
    assert {m.level for m in legal} == set(LEVELS)
    for move in legal:
        changed = move.compile()
        found = changed.run(inputs)["y"]
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())
        assert (group_of(changed, move.value) is None) == (move.level == "DRAM")


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_a_value_at_a_level_is_compiled_with_a_tile_that_has_room_there(
    level: str, compiled: Compilation
) -> None:
    """The scores of all rows are more than L1 holds, if the machine is no larger than most."""
    move = WhatIf(compiled).connect("scores", level)
    assert move.refused is None and move.tiling is not None
    changed = move.compile()
    group = group_of(changed, "scores")
    assert group is not None
    kernels = Kernels.around(changed.snapshot("fuse (Welder)").before, "scores", changed.device)
    assert kernels is not None
    (kernel,) = (g.kernel for g in kernels.grouped(group.members, inside_of(group)))
    (call,) = (b.expr for b in changed.program.kernel_calls if b.var.name == group.name)
    assert isinstance(call, KernelCall) and isinstance(call.tiling, Tiling)
    names = dict(zip(*[[a.name for a in k.computes[-1].axes] for k in (call.kernel, kernel)]))
    tiling = Tiling(tuple((names.get(a, a), n) for a, n in call.tiling.tile))
    held = reuse_bytes(kernel, tiling, tensor_of("scores"))
    memory = changed.device.level(level)
    assert memory.capacity_bytes is not None and held <= memory.capacity_bytes


def test_a_split_value_is_stored_and_joins_again(compiled: Compilation) -> None:
    value = next(g.members[0] for g in WhatIf(compiled).groups if len(g.members) > 1)
    move = WhatIf(compiled).split(value)
    assert move.after is not None and move.refused is None
    assert len(move.after.groups) == len(move.before.groups) + 1
    assert move.after.dram_bytes > move.before.dram_bytes
    apart = move.compile()
    assert group_of(apart, value) is None
    back = WhatIf(apart).join(value)
    assert back.refused is None and back.after is not None
    assert back.after.dram_bytes < back.before.dram_bytes
    assert group_of(back.compile(), value) is not None


def test_a_move_is_measured_by_what_measures_all_else(compiled: Compilation) -> None:
    changed = WhatIf(compiled).split("moved").compile()
    found = compare(compiled, changed, compiled.random_inputs(), seconds=0.0)
    assert found.low <= found.ratio <= found.high


def test_only_what_is_used_at_its_own_point_is_handed_over_in_registers(
    compiled: Compilation,
) -> None:
    move = WhatIf(compiled).connect("scores", "register")
    assert move.refused is not None and move.refused.condition == "register"
    assert "its own index" in move.refused.text and move.refused.change == "connect it at L1"
    with pytest.raises(BadOption, match="scores cannot be connected at register"):
        move.compile()
    assert WhatIf(compiled).connect("moved", "register").refused is None


def test_a_value_that_several_of_the_group_read_is_found_where_it_is_handed_over(
    tmp_path: Path,
) -> None:
    """A softmax in single operators reads the scores twice, and its rows go through a maximum."""
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"]),
        helper.make_node("ReduceMax", ["scores", "last"], ["top"]),
        helper.make_node("Sub", ["scores", "top"], ["below"]),
        helper.make_node("Exp", ["below"], ["powers"]),
        helper.make_node("ReduceSum", ["powers", "last"], ["total"]),
        helper.make_node("Div", ["powers", "total"], ["y"]),
    ]
    weights = {"k": np.ones((64, 128), np.float32), "last": np.array([-1])}
    model = written(tmp_path, nodes, {"x": [1024, 64]}, ["y"], weights)
    what_if = WhatIf(compile_model(model, until=Stage.ROLLED))
    why = what_if.connect("scores", "register").refused
    assert why is not None and why.condition == "register" and "its own index" in why.text
    for level in ("L1", "L2"):
        move = what_if.connect("scores", level)
        assert move.refused is None and move.reached in ("L1", "L2")


def test_what_others_read_is_refused_with_their_names() -> None:
    c = compile_model(_load("tiny_bert"), until=Stage.ROLLED)
    move = WhatIf(c).join("layer_norm")
    assert move.refused is not None and move.refused.condition == "readers"
    assert move.refused.change.startswith("join ") and move.after is None


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", ["two_step", "shipped"])
def test_every_policy_minds_what_was_moved_by_hand(policy: str, compiled: Compilation) -> None:
    c = compiled.with_options(welder=WelderOptions(policy=policy))
    inputs = c.random_inputs()
    for value, level in (("shares", "L1"), ("moved", "DRAM")):
        changed = WhatIf(c).connect(value, level).compile()
        assert (group_of(changed, value) is None) == (level == "DRAM")
        found, wanted = changed.run(inputs)["y"], compiled.run(inputs)["y"]
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


def test_a_row_that_a_memory_does_not_hold_is_refused_with_one_that_does(tmp_path: Path) -> None:
    """Rows of scores that are twice as long as L1."""
    l1, l2 = (this_cpu().level(n).capacity_bytes or 0 for n in ("L1", "L2"))
    keys = 2 * l1 // 4
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    weights = {"k": np.ones((8, keys), np.float32)}
    model = written(tmp_path, nodes, {"x": [16, 8]}, ["y"], weights)
    what_if = WhatIf(compile_model(model, until=Stage.ROLLED))
    why = what_if.connect("scores", "L1").refused
    assert why is not None and why.condition == "capacity"
    assert why.value == 2 * l1 and why.limit == l1 and why.value <= l2
    assert why.change == "connect it at L2"
    assert what_if.connect("scores", "L2").refused is None
    joined = what_if.join("scores")
    assert joined.refused is None and joined.level == "L2"


def test_with_welding_switched_off_nothing_joins(compiled: Compilation) -> None:
    c = compiled.with_options(welder=WelderOptions(enabled=False))
    move = WhatIf(c).join("moved")
    assert move.refused is not None and move.refused.words == (
        "fusion is switched off: switch Welder on"
    )


def test_a_value_that_no_kernel_makes_and_a_level_that_is_not_there_are_named(
    compiled: Compilation,
) -> None:
    with pytest.raises(BadOption, match="no kernel makes a value named 'nothing'"):
        WhatIf(compiled).split("nothing")
    with pytest.raises(BadOption, match="no such level") as problem:
        WhatIf(compiled).connect("moved", "L4")
    assert problem.value.expected == ", ".join(LEVELS)


def test_moves_of_a_model_with_symbols_keep_them(tmp_path: Path) -> None:
    from tests.tuning.models import mlp

    c = compile_model(mlp(tmp_path))
    for value in ("r", "h"):
        changed = WhatIf(c).split(value).compile()
        for batch in (1, 7):
            x = np.random.default_rng(batch).standard_normal((batch, 24)).astype(np.float32)
            np.testing.assert_allclose(changed.run(x)["y"], c.run(x)["y"], rtol=1e-5, atol=1e-6)


def test_moves_are_predicted_at_the_sizes_that_are_given(tmp_path: Path) -> None:
    from tests.tuning.models import mlp

    c = compile_model(mlp(tmp_path), until=Stage.ROLLED)
    hinted, one, many = WhatIf(c), WhatIf(c, {"batch": 1}), WhatIf(c, {"batch": 2048})
    for level in hinted.levels:
        few, more = one.connect("h", level), many.connect("h", level)
        assert str(hinted.connect("h", level)) == str(few)
        assert few.after is not None and more.after is not None
        assert more.before.dram_bytes > 100 * few.before.dram_bytes
        assert more.after.dram_bytes > 100 * few.after.dram_bytes
        assert more.tiling == few.tiling


def test_a_data_sheet_of_a_gpu_has_its_own_levels() -> None:
    c = compile_model(_load("tiny_resnet18"), target="v100", until=Stage.ROLLED)
    what_if = WhatIf(c)
    assert what_if.levels == ("register", "shared", "DRAM")
    inner = next(g.members[0] for g in what_if.groups if len(g.members) > 1)
    move = what_if.split(inner)
    assert move.after is not None and move.after.dram_bytes > move.before.dram_bytes


def _load(name: str) -> Any:
    from explorer.frontends.load import load

    return load(DATA / f"{name}.onnx")


def test_options_of_a_move_are_the_connections_so_far(compiled: Compilation) -> None:
    first = WhatIf(compiled).split("moved").compile()
    second = WhatIf(first).connect("moved", "register").compile()
    assert isinstance(second.options, Options)
    assert second.options.welder.connect == (("moved", "register"),)
