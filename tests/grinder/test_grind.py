"""Control flow as a tree of uTasks, each loop and branch with its level and reason."""

import pytest

from explorer.errors import UnsupportedOperator
from explorer.grinder import Grind, Straight, task_tree, uprogram
from explorer.ir.calls import OpCall, Var
from explorer.ir.stage import Stage
from explorer.ir.types import Object, Tensor
from tests.runtime.programs import Model, vector
from tests.runtime.test_control_flow import with_library

VECTOR, COUNT, TRUTH = vector(8), Tensor((), "int64"), Tensor((), "bool")


def nested():
    """A loop over a branch, one way of which has a loop of its own."""
    model = Model()

    def var(kind):
        return model.var(kind)

    inner = model.function(
        "inner", (var(COUNT), var(TRUTH), var(VECTOR)), lambda b, i, go, s: [go, b.flip(s)]
    )
    three = Var("three", COUNT)
    then = model.function(
        "then", (var(VECTOR), var(COUNT)), lambda b, x, t: [b.loop(inner, t, None, [x])]
    )
    orelse = model.function("else", (var(VECTOR), var(COUNT)), lambda b, x, t: [b.flip(x)])

    def outer(b, i, go, s, t):
        after = b.branch(b.test(s), then, orelse, [s, t], VECTOR)
        return [b.test(after), after]

    body = model.function("outer", (var(COUNT), var(TRUTH), var(VECTOR), var(COUNT)), outer)
    x = Var("x", VECTOR)
    return model.program(
        (x, three), lambda b, x, t: [b.flip(b.loop(body, None, b.test(x), [x], [t]))]
    )


def shape_of(tree):
    return (tree.kind, tree.level, *map(shape_of, tree.parts))


def test_the_tree_nests_as_the_program_does():
    tree = task_tree(nested())
    operator = ("operator", "device")
    then = ("sequence", "device", ("loop", "device", operator))
    orelse = ("sequence", "device", operator)
    branch = ("branch", "device", then, orelse)
    loop = ("loop", "device", operator, branch, operator)
    assert shape_of(tree) == ("sequence", "device", operator, loop, operator)


def test_a_level_is_never_below_that_of_what_is_inside():
    def check(tree, inside_device):
        assert not (inside_device and tree.level == "host")
        for part in tree.parts:
            check(part, tree.level == "device")

    for program in (nested(), with_library(3)[1]):
        check(task_tree(program), False)


def test_leaves_name_bindings_and_keep_their_origin():
    program = nested()
    names = {b.var.name: b.origin for b in program.kernel_calls}

    def leaves(tree):
        return [tree] if not tree.parts else [x for part in tree.parts for x in leaves(part)]

    found = {leaf.binding: leaf.origin for leaf in leaves(task_tree(program))}
    assert found == names


def test_the_pass_leaves_the_tree_in_the_program():
    program = nested()
    after = Grind()(program)
    assert after.stage is Stage.TASKED and after.decisions.tasks == task_tree(program)
    assert after.functions == program.functions


def test_values_of_two_calls_of_one_function_are_apart():
    model = Model()
    f = model.function("f", (model.var(VECTOR),), lambda b, x: [b.flip(x)])
    x = Var("x", VECTOR)
    program = model.program((x,), lambda b, x: [b.call(f, [b.call(f, [x], VECTOR)], VECTOR)])
    (part,) = uprogram(program).parts
    assert isinstance(part, Straight)
    first, second = part.operators
    assert second.args == first.results and first.results != second.results
    assert first.binding == second.binding


def test_an_operator_without_a_kernel_is_named():
    model = Model()
    x = Var("x", VECTOR)
    program = model.program((x,), lambda b, x: [b.bind(OpCall("Foo", (x,)), VECTOR)])
    with pytest.raises(UnsupportedOperator, match="Foo has no kernel"):
        uprogram(program)


def test_a_value_of_unknown_shape_is_an_object_of_the_host():
    model = Model()
    x = Var("x", Object())
    program = model.program((x,), lambda b, x: [b.library("Identity", x, type=Object())])
    found = uprogram(program)
    assert found.values[found.outputs[0]].home == "host"
