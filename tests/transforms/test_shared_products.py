"""Products by one constant that become one: the same numbers, and the choices that were weighed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.build import print_kernel
from explorer.compiler.options import Options as AllOptions
from explorer.compiler.pipeline import compile
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.frontends.model import Model
from explorer.ir.calls import KernelCall, OpCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.program import Constant, Program
from explorer.measure.this_cpu import this_cpu
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import legalize
from explorer.transforms.copies.concat_in_place import write_concats_in_place
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.loop_dataflow import Needs, needs_of, order_groups
from explorer.transforms.product_groups import product_groups, rank_grouping
from explorer.transforms.shared_products import ORDERS, Options, ShareProducts, order_bindings
from tests.examples import examples
from tests.tile.programs import HERE
from tests.transforms.programs import keeps_values, kernels
from tests.transforms.recurrent import BATCH, Net, lstm

ON = Options(hoist="on")


def hoisted(program: Program, options: Options = ON) -> Program:
    """The program after the pass, which must compute the same."""
    return keeps_values(ShareProducts(this_cpu(), options), program)


def products(program: Program) -> list[str]:
    """The constant of each product, in order."""
    found = []
    for b in program.main.body:
        if isinstance(b.expr, OpCall) and b.expr.op in ("MatMul", "Gemm"):
            found.append(b.reads[1].name)
    return found


def test_the_inputs_of_a_layer_are_projected_at_once_and_layers_run_one_after_the_other() -> None:
    after = hoisted(lstm(2, 3).program())
    found = products(after)
    assert sorted(found) == sorted(
        ["layer0.input", "layer1.input", *["layer0.state"] * 3, *["layer1.state"] * 3]
    )
    assert [name[:6] for name in found] == ["layer0"] * 4 + ["layer1"] * 4
    assert after.decisions.order == "by layer"
    by_weight = {d.weight: d for d in after.decisions.products}
    assert set(by_weight) == {"layer0.input", "layer1.input"}
    assert all(d.chosen == "together" and len(d.products) == 3 for d in by_weight.values())


CASES = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 2),
        "steps": st.integers(1, 3),
        "batch": st.sampled_from([1, 2, BATCH]),
        "shared": st.booleans(),
        "both_ways": st.booleans(),
        "rows": st.lists(st.just(0), max_size=1),
    }
)


@given(case=CASES, order=st.sampled_from(["auto", *ORDERS]))
@settings(max_examples=12)
def test_any_unrolled_graph_computes_what_it_did(case: Any, order: str) -> None:
    before = lstm(**case).program()
    after = ShareProducts(this_cpu(), Options("on", order))(before)
    folded = write_concats_in_place(fold_copies(legalize(after)))
    verify(after)
    verify(folded)
    inputs = {p.name: a for p, a in zip(before.main.params, arrays(before), strict=True)}
    for name, value in evaluate(before, inputs).items():
        np.testing.assert_allclose(evaluate(folded, inputs)[name], value, rtol=1e-5, atol=1e-6)


def arrays(program: Program, batch: int = 3) -> list[np.ndarray]:
    """Random inputs."""
    random = np.random.default_rng(1)
    shapes = [p.type.dims for p in program.main.params]  # type: ignore[union-attr]
    sized = [[n if isinstance(n, int) else int(n.subs(BATCH, batch)) for n in s] for s in shapes]
    return [random.standard_normal(s).astype(np.float32) for s in sized]


def test_products_of_other_ranks_and_row_counts_share_one_product() -> None:
    net = Net()
    net.weight("w", 4, 6)
    shapes = [(4,), (3, 4), (2, 1, 4), (1, 4)]
    results = [net.op("MatMul", net.input(f"x{n}", *s), "w") for n, s in enumerate(shapes)]
    assert products(hoisted(net.program(*results))) == ["w"]


def test_an_added_vector_that_all_have_goes_with_them_and_others_stay() -> None:
    for vectors, count in ((("b", "b"), 1), (("b", "c"), 2)):
        net = Net()
        net.weight("w", 4, 6), net.weight("b", 6), net.weight("c", 6)
        made = [net.op("MatMul", net.input(f"x{n}", 2, 4), "w") for n in range(2)]
        sums = [net.op("Add", v, m) for v, m in zip(vectors, made, strict=True)]
        after = hoisted(net.program(*sums))
        ops = [b.expr.op for b in after.main.body if isinstance(b.expr, OpCall)]
        assert (ops.count("MatMul"), ops.count("Add")) == (1, count)


@pytest.mark.parametrize("shape", [(1, 1, 6), (1, 1, 1, 6)])
def test_an_added_vector_of_more_dims_than_a_matrix_stays(shape: tuple[int, ...]) -> None:
    net = Net()
    net.weight("w", 4, 6), net.weight("b", *shape)
    made = [net.op("MatMul", net.input(f"x{n}", 2, 1, n + 1, 4), "w") for n in range(2)]
    after = hoisted(net.program(*[net.op("Add", m, "b") for m in made]))
    ops = [b.expr.op for b in after.main.body if isinstance(b.expr, OpCall)]
    assert (ops.count("MatMul"), ops.count("Add")) == (1, 2)
    verify(legalize(after))


@pytest.mark.parametrize("shape", [(4, 0), (0, 6)])
def test_products_by_an_empty_constant_are_left(shape: tuple[int, int]) -> None:
    net = Net()
    net.constants["w"] = Constant(np.zeros(shape, np.float32))
    program = net.program(*[net.op("MatMul", net.input(f"x{n}", 2, shape[0]), "w") for n in (0, 1)])
    for options in (Options(), ON):
        assert ShareProducts(this_cpu(), options)(program) == program


def test_gemms_with_a_bias_of_one_row_are_shared_and_with_one_of_all_rows_are_not() -> None:
    for rows, count in ((1, 1), (2, 2)):
        net = Net()
        net.weight("w", 6, 4), net.weight("b", rows, 6)
        made = [net.op("Gemm", net.input(f"x{n}", 2, 4), "w", "b", transB=1) for n in range(2)]
        assert len(products(hoisted(net.program(*made)))) == count


def test_a_product_that_needs_another_of_its_weight_waits_for_it() -> None:
    net = Net()
    net.weight("w", 4, 4)
    x, y = net.input("x", 1, 4), net.input("y", 1, 4)
    first = [net.op("MatMul", v, "w") for v in (x, y)]
    second = [net.op("MatMul", net.op("Tanh", v), "w") for v in first]
    after = hoisted(net.program(*second))
    assert products(after) == ["w", "w"]
    assert [d.generation for d in after.decisions.products] == [0, 1]


def test_groups_that_need_each_other_do_not_both_become_one() -> None:
    net = Net()
    net.weight("v", 4, 4), net.weight("w", 4, 4)
    x, y = net.input("x", 1, 4), net.input("y", 1, 4)
    a = net.op("MatMul", net.op("MatMul", x, "v"), "w")
    b = net.op("MatMul", net.op("MatMul", y, "w"), "v")
    after = hoisted(net.program(a, b))
    assert len(products(after)) == 3
    refused = [c.why for d in after.decisions.products for c in d.candidates if c.refused]
    assert [w.condition for w in refused if w] == ["cycle"] or "gain" in [
        w.condition for w in refused if w
    ]


@st.composite
def dataflows(draw: st.DrawFn) -> list[list[int]]:
    """What each place needs, at random."""
    count = draw(st.integers(1, 14))
    before = [st.lists(st.integers(0, max(0, n - 1)), max_size=3 if n else 0) for n in range(count)]
    return [sorted(set(draw(b))) for b in before]


@given(needs=dataflows(), data=st.data())
@settings(max_examples=examples(60))
def test_groups_run_at_once_after_all_that_they_need(needs: Needs, data: st.DataObject) -> None:
    colours = data.draw(st.lists(st.integers(0, 3), min_size=len(needs), max_size=len(needs)))
    reach = [set(n) for n in needs]
    for n in range(len(needs)):
        reach[n] |= {m for at in needs[n] for m in reach[at]}
    groups = []
    for colour in range(3):
        apart: list[int] = []
        for n in (n for n, c in enumerate(colours) if c == colour):
            if not any(m in reach[n] for m in apart):
                apart.append(n)
        if len(apart) > 1:
            groups.append(apart)
    order, broken = order_groups(needs, groups)
    done: set[int] = set()
    for places in order:
        assert all(set(needs[n]) <= done for n in places)
        done |= set(places)
    assert sorted(n for places in order for n in places) == list(range(len(needs)))
    for number, places in enumerate(groups):
        assert (tuple(places) in order) == (number not in broken)


def test_only_a_group_that_needs_itself_gives_way() -> None:
    """The last one waits for a pair that need each other, and nothing waits for it."""
    needs: Needs = [[], [], [0], [1], [], [3]]
    pair, last = [[0, 3], [1, 2]], [4, 5]
    order, broken = order_groups(needs, [*pair, last])
    assert broken == {1} and tuple(last) in order
    assert order_groups(needs, [pair[0], last])[1] == set()


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_keeps_values_before_their_readers(order: str) -> None:
    program = lstm(3, 3).program()
    ranks = ORDERS[order]
    after = hoisted(program, Options("off", order))
    assert after.decisions.order == order
    assert sorted(map(str, after.main.body)) == sorted(map(str, program.main.body))
    body = after.main.body
    weights = {n: p for n, p in zip(_places(after), products(after), strict=True)}
    found = ranks(needs_of(body), weights)
    assert found == sorted(found)


def _places(program: Program) -> list[int]:
    body = enumerate(program.main.body)
    return [n for n, b in body if isinstance(b.expr, OpCall) and b.expr.op == "MatMul"]


def test_orders_are_by_layer_by_step_and_along_the_diagonal() -> None:
    program = lstm(2, 3).program()
    first = {}
    for order in ("by layer", "by time step", "diagonal"):
        body = order_bindings(program.main.body, program.constants, order)
        state = [b.reads[1].name for b in body if len(b.reads) > 1 and "state" in b.reads[1].name]
        first[order] = "".join(n[5] for n in state)
    assert first["by layer"] == "000111"
    assert first["by time step"] == "010101"
    assert first["diagonal"] in ("010101", "001011", "010011", "100101", "101010")


def machine(**changes: object) -> Device:
    return replace(device("v100"), **changes)  # type: ignore[arg-type]


def test_small_products_stay_apart_and_large_ones_become_one() -> None:
    small, large = lstm(2, 3, 4).program(), lstm(2, 16, 128).program()
    auto = Options()
    assert all(d.chosen == "apart" for d in hoisted(small, auto).decisions.products)
    kept = hoisted(small, auto).decisions.products[0].candidates[1]
    assert kept.why is not None and kept.why.condition == "gain" and kept.why.value > 0
    assert all(d.chosen == "together" for d in hoisted(large, auto).decisions.products)


def test_units_that_a_step_leaves_idle_are_a_reason_to_keep_steps_apart() -> None:
    program = lstm(4, 16, 64).program()
    groups = product_groups(program.main, program.constants, needs_of(program.main.body))
    upper = next(g for g in groups if g.kind.weight.name == "layer3.input")
    lost = {}
    for units in (1, 512):
        found = rank_grouping(upper, machine(units=units), program.env, 1 << 24, "auto")
        together = next(c for c in found if c.label == "together")
        lost[units] = dict(together.terms)["lost overlap"]
    assert lost[1] == 0.0 < lost[512]


def test_the_option_says_where_products_are_shared() -> None:
    program = lstm(1, 3, 128).program()
    off = hoisted(program, Options(hoist="off"))
    assert products(off) == products(program)
    why = off.decisions.products[0].candidates[1].why
    assert why is not None and why.condition == "option"
    for wrong in ({"hoist": "always"}, {"order": "sideways"}):
        with pytest.raises(BadOption):
            Options(**wrong)


def test_rows_of_the_input_are_read_in_place_and_rows_of_answers_written_in_place() -> None:
    program = lstm(3, 4).program()
    c = compile(model_of(program), options=AllOptions(recurrent=ON), until="legalized")
    found = kernels(c.program)
    assert found.count("matmul") == 3 + 3 * 4
    assert len([n for n in found if n in ("concat", "slice")]) <= 2  # each layer's last answer
    inputs = c.random_inputs()
    got, wanted = evaluate(c.program, inputs), evaluate(program, inputs)
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-5, atol=1e-6)


def model_of(program: Program) -> Model:
    return Model("unrolled", "", program)


def sources(steps: int) -> set[str]:
    """The code of all kernels of a small LSTM."""
    program = lstm(2, steps).program()
    c = compile(model_of(program), options=AllOptions(recurrent=ON), until="rolled")
    found = set()
    for b in c.program.kernel_calls:
        assert isinstance(b.expr, KernelCall) and isinstance(b.expr.tiling, Tiling)
        found.add(print_kernel(b.expr.kernel, b.expr.tiling, c.program.env, HERE)[0])
    return found


def test_more_steps_need_no_more_kernels() -> None:
    assert len(sources(9)) == len(sources(5))


@pytest.mark.exhaustive
def test_what_is_compiled_computes_the_same() -> None:
    program = lstm(2, 3, 8, BATCH).program()
    c = compile(model_of(program), options=AllOptions(recurrent=ON))
    for size in (1, 3, 4):
        given = dict(zip([p.name for p in program.main.params], arrays(program, size), strict=True))
        got, wanted = c.run(given), evaluate(program, given)
        for name in wanted:
            np.testing.assert_allclose(got[name], wanted[name], rtol=1e-5, atol=1e-6)
