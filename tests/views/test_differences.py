"""What two programs have different: by structure, whatever values are called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer import Stage, difference
from explorer.ir.calls import KernelCall, Loop, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.views.differences import Difference
from tests.views.renamed import renamed

ROW = Tensor((8,), "float32")
X, Y = Var("x", ROW), Var("y", ROW)
MODELS = ("zoo:tiny_bert", "zoo:small_lstm", "zoo:small_mobilevit", "zoo:skipnet")


def value(name: str) -> Var:
    return Var(name, ROW)


def bind(name: str, op: str, *args: str, origin: str = "", **attrs: int) -> Binding:
    origins = frozenset({origin} if origin else ())
    return Binding(
        (value(name),), OpCall(op, tuple(map(value, args)), tuple(attrs.items())), origins
    )


def program(*body: Binding, outputs: tuple[str, ...] = (), **constants: np.ndarray) -> Program:
    last = outputs or (body[-1].name,)
    main = Function("main", (X, Y), body, tuple(map(value, last)))
    return Program((main,), {n: Constant(a) for n, a in constants.items()})


def told(found: Difference) -> list[tuple[str, str, str]]:
    return [(c.kind, c.what, c.name) for c in found.changes]


CHAIN = (bind("a", "Exp", "x"), bind("b", "Neg", "a"), bind("c", "Mul", "b", "y"))


def test_other_names_are_no_difference() -> None:
    other = (bind("c", "Exp", "x"), bind("a", "Neg", "c"), bind("b", "Mul", "a", "y"))
    found = difference(program(*CHAIN), program(*other))
    assert not found and (found.same, found.renamed) == (3, 3)
    assert str(found) == "no difference in 3 bindings"


@pytest.mark.few(1)
@pytest.mark.parametrize("model", MODELS)
def test_a_renamed_program_has_no_difference_after_any_step(model: str) -> None:
    c = explorer.compile(model, until=Stage.PLANNED)
    programs = [c.model.program, *(s.after for s in c.snapshots)]
    for n, one in enumerate(dict.fromkeys(map(id, programs))):
        before = next(p for p in programs if id(p) == one)
        found = difference(before, renamed(before, n))
        assert str(found) == f"no difference in {found.same} bindings"
        assert found.renamed == found.same == sum(1 for _ in before.bindings())


def test_what_was_added_or_removed_is_told_and_nothing_else() -> None:
    longer = (*CHAIN[:2], bind("new", "Abs", "b"), bind("c", "Mul", "new", "y"))
    found = difference(program(*CHAIN), program(*longer))
    assert told(found) == [("added", "operator", "new"), ("changed", "operator", "c")]
    assert found.changes[1].words == ("reads new in place of b (number 1)",)
    back = difference(program(*longer), program(*CHAIN))
    assert told(back)[0] == ("removed", "operator", "new") and len(back.changes) == 2


def test_a_layer_more_in_the_middle_of_equal_ones_is_that_layer() -> None:
    def layers(count: int) -> Program:
        body = [bind("h0", "Abs", "x")]
        for n in range(count):
            body += [bind(f"e{n}", "Exp", f"h{n}"), bind(f"h{n + 1}", "Add", f"e{n}", f"h{n}")]
        return program(*body, bind("end", "Neg", f"h{count}"))

    found = difference(layers(12), layers(13))
    assert found.same == 25 and found.counts == {"added": 2, "changed": 1}
    assert told(found)[-1] == ("changed", "operator", "end")


def test_an_attribute_that_changed_is_named() -> None:
    one, other = (program(bind("s", "Softmax", "x", axis=n, origin="s")) for n in (0, 1))
    (change,) = difference(one, other).changes
    assert change.kind == "changed" and change.words == ("axis 0 → 1",)


def test_an_operator_that_is_another_now_is_changed() -> None:
    other = (*CHAIN[:1], bind("b", "Abs", "a"), CHAIN[2])
    (change,) = difference(program(*CHAIN), program(*other)).changes
    assert (change.kind, change.words) == ("changed", ("operator Neg → operator Abs",))


def test_lines_in_another_order_are_moved_the_fewest_of_them() -> None:
    a, b, c = bind("a", "Exp", "x"), bind("b", "Neg", "y"), bind("c", "Abs", "y")
    last = bind("d", "Concat", "a", "b", "c")
    found = difference(program(a, b, c, last), program(b, c, a, last))
    assert told(found) == [("moved", "operator", "a")]


def test_values_that_swap_their_names_swap_nothing_else() -> None:
    one = program(bind("a", "Exp", "x"), bind("b", "Neg", "x"), bind("c", "Sub", "a", "b"))
    swapped = program(bind("b", "Exp", "x"), bind("a", "Neg", "x"), bind("c", "Sub", "b", "a"))
    crossed = program(bind("a", "Exp", "x"), bind("b", "Neg", "x"), bind("c", "Sub", "b", "a"))
    assert not difference(one, swapped)
    assert told(difference(one, crossed)) == [("changed", "operator", "c")]


def test_another_output_is_a_difference() -> None:
    one, other = (program(*CHAIN, outputs=(n,)) for n in "cb")
    (change,) = difference(one, other).changes
    assert (change.kind, change.what, change.words) == (
        "changed",
        "output",
        ("number 1 is b in place of c",),
    )


def test_another_result_of_the_same_binding_is_a_difference() -> None:
    halves = Binding((value("p"), value("q")), OpCall("Split", (X,)))
    one, other = (program(halves, bind("n", "Neg", n)) for n in "pq")
    (change,) = difference(one, other).changes
    assert change.words == ("reads q in place of p (number 1)",)


def test_an_output_may_be_an_input_or_a_constant() -> None:
    given = program(*CHAIN, outputs=("x",))
    found = difference(program(*CHAIN), given)
    assert str(found) == "changed output: number 1 is x in place of c"


def test_constants_are_told_apart_by_their_values_not_their_names() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((300, 300), np.float32)
    nudged = weight.copy()
    nudged[17, 31] += 1
    one = program(bind("a", "Mul", "x", "w"), w=weight)
    same = program(bind("a", "Mul", "x", "v"), v=weight.copy())
    other = program(bind("a", "Mul", "x", "w"), w=nudged)
    assert not difference(one, same)
    assert difference(one, other).changes[0].words == ("reads another constant (number 2)",)


def test_a_welded_kernel_has_the_loops_of_those_that_are_part_of_it() -> None:
    from tests.widgets import made_by_hand as hand

    found = difference(hand.TASKED, hand.WELDED)
    assert [(c.kind, c.what) for c in found.changes] == [
        ("changed", "kernel"),
        ("moved", "loop"),
        ("removed", "kernel"),
    ]
    assert found.changes[0].words == ("1 → 2 loops",)
    assert found.changes[1].words == ("from kernel relu_out",)
    assert found.changes[2].words == ("now part of relu_out",)
    assert found.changes[2].ops == {"relu"}


def test_a_tile_that_changed_is_told_with_both() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.ROLLED)
    name = c.program.kernel_calls[-1].name
    tiling = c.program.kernel_calls[-1].kernel_call.tiling
    assert tiling is not None

    def other(b: Binding) -> Binding:
        if b.name != name or not isinstance(b.expr, KernelCall):
            return b
        return replace(b, expr=replace(b.expr, tiling=replace(tiling, tile=(("x", 3),))))

    changed = c.program.with_body(tuple(map(other, c.program.main.body)))
    (change,) = difference(c, changed).changes
    assert change.what == "kernel" and change.words[0].startswith("tile ")
    assert "→ x=3" in change.words[0]


def looped(*, hoisted: bool) -> Program:
    """A loop that adds up what it is given, or the exponential of that."""
    count, go = Var("n", Tensor((), "int64")), Var("go", Tensor((), "bool"))
    given, made = value("given"), bind("made", "Exp", "given")
    inside = Function(
        "body",
        (count, go, value("sum"), value("made") if hoisted else given),
        (*(() if hoisted else (made,)), bind("more", "Add", "sum", "made")),
        (go, value("more")),
    )
    before = (bind("made", "Exp", "y"),) if hoisted else ()
    loop = Loop("body", None, None, (X,), (value("made") if hoisted else Y,))
    main = Function("main", (X, Y), (*before, Binding((value("total"),), loop)), (value("total"),))
    return Program((main, inside))


def test_what_was_hoisted_out_of_a_loop_is_moved() -> None:
    found = difference(looped(hoisted=False), looped(hoisted=True))
    assert told(found) == [("moved", "operator", "made"), ("changed", "control flow", "total")]
    assert found.changes[0].words == ("moved from a body of total to the main function",)
    assert found.changes[1].words == ("reads made in place of y (number 2)",)
    assert not difference(looped(hoisted=True), renamed(looped(hoisted=True)))


def test_two_compilations_differ_by_what_was_asked_otherwise() -> None:
    one = explorer.compile("zoo:tiny_bert", until=Stage.WELDED)
    other = one.with_options(welder=replace(one.options.welder, enabled=False))
    found = difference(other, one)
    assert found.counts["removed"] and found.counts["changed"]
    assert not difference(one, one) and not difference(one, one.program)
    assert {c.what for c in found.changes} <= {"kernel", "loop", "view"}
