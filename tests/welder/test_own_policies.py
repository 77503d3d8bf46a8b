"""Welder's policies of one's own: a bad one ends in one sentence; those with a name, passed as
functions, keep every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, settings
from onnx import helper

from explorer.errors import BadOption, BadPolicy
from explorer.ir.program import Program
from explorer.roller import Price
from explorer.welder import POLICIES, Options, Weld
from explorer.welder.groups import Facts, Group, absorb, merge_kernels
from explorer.welder.options import no_fusion
from explorer.welder.policy import ByPairs
from tests.roller.test_policy import DEVICE
from tests.strategies.layer_programs import programs
from tests.transforms.programs import legalized, weights
from tests.welder.test_policies import QUIET, kernels_of

Groups = Sequence[Group]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """a = x @ v; b = relu(a); c = b @ w; y = exp(c); z = tanh(x); n = -b: six kernels."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "v"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Exp", ["c"], ["y"]),
        node("Tanh", ["x"], ["z"]),
        node("Neg", ["b"], ["n"]),
    ]
    constants = {"v": weights(8, 8), "w": weights(8, 8, seed=1)}
    folder = tmp_path_factory.mktemp("own")
    return legalized(folder, nodes, {"x": (4, 8)}, ["y", "z", "n"], constants)


def welded(program: Program, policy: Any, **options: Any) -> Program:
    return Weld(DEVICE, Price(DEVICE), Options(policy=policy, **options))(program)


def joined(kernels: Groups, facts: Facts, first: int, second: int) -> Group:
    """Two kernels as one group, made as they should be."""
    producer, reader = kernels[first], kernels[second]
    arg = next(v for v in reader.args if v.name == producer.name)
    both = merge_kernels(reader, producer, arg, facts.env)
    return absorb(reader, producer, arg, both, facts.device)


def swallowed(kernels: Groups, facts: Facts) -> Groups:
    """The group of a and b, in the place of b alone; c reads b, and a is read by nobody else."""
    return (joined(kernels, facts, 0, 1), *kernels[2:])


def renamed(group: Group, **changes: Any) -> Group:
    return replace(group, **changes)


def cyclic(kernels: Groups, facts: Facts) -> Groups:
    """b reads c, which reads b."""
    b, c = kernels[1], kernels[2]
    return (kernels[0], renamed(b, args=(replace(b.args[0], name=c.name),)), *kernels[2:])


def hides(kernels: Groups, facts: Facts) -> Groups:
    """Says that b does a, and does b alone."""
    return (renamed(kernels[1], members=(kernels[0].name, kernels[1].name)), *kernels[2:])


def does_less(kernels: Groups, facts: Facts) -> Groups:
    """Takes what a takes, and does only a, under the name of b."""
    a, b = kernels[0], kernels[1]
    return (renamed(a, name=b.name, members=(a.name, b.name)), *kernels[2:])


def raises(kernels: Groups, facts: Facts) -> Groups:
    raise IndexError("out of ideas")


BAD: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda k, f: [], "no group with the kernel"),
    "None": (lambda k, f: None, "returned None, and must return Groups"),
    "a number": (lambda k, f: 3, "returned an int"),
    "a word": (lambda k, f: "all of them", "returned a str"),
    "a dict": (lambda k, f: {g.name: g for g in k}, "returned a dict"),
    "names": (lambda k, f: [g.name for g in k], "returned a str among its groups"),
    "one too few": (lambda k, f: k[:-1], "no group with the kernel 'n'"),
    "one twice": (lambda k, f: [*k[:-1], k[0]], "two groups that both store"),
    "more than there are": (lambda k, f: [*k, k[0]], "more groups than there are kernels, 6"),
    "no end": (lambda k, f: repeat(k[0]), "more groups than there are kernels, 6"),
    "a kernel of its own": (
        lambda k, f: [renamed(k[0], members=("invented",)), *k[1:]],
        "an unknown kernel 'invented'",
    ),
    "no members": (lambda k, f: [renamed(k[0], members=()), *k[1:]], "without kernels"),
    "members that are no names": (
        lambda k, f: [renamed(k[0], members=(1, 2)), *k[1:]],
        "an unknown kernel 1",
    ),
    "a group under another's name": (
        lambda k, f: [renamed(k[0], name=k[1].name), k[1], *k[2:]],
        "has another name: the last one stores",
    ),
    "kernels that are not connected": (
        lambda k, f: [renamed(k[4], members=(k[0].name, k[4].name)), *k[1:4], k[5]],
        "not connected: none of z reads",
    ),
    "a circle": (cyclic, "its kernels read"),
    "a value that somebody reads, inside": (
        lambda k, f: [k[0], joined(k, f, 1, 2), *k[3:]],
        "no group that stores 'b', which n reads",
    ),
    "a kernel that does less than it says": (hides, "reads a, and its kernels read"),
    "a kernel that leaves out the last": (does_less, "whose kernel lacks"),
    "no kernel": (lambda k, f: [renamed(k[0], kernel=None), *k[1:]], "whose kernel is None"),
    "arguments that are no values": (
        lambda k, f: [renamed(k[0], args=("x", "v")), *k[1:]],
        "a str among its args",
    ),
    "steps that are none": (
        lambda k, f: [renamed(k[0], steps=("because",)), *k[1:]],
        "a str among its steps",
    ),
    "a tile that is none": (
        lambda k, f: [renamed(k[0], tile={"i": 4}), *k[1:]],
        "an invalid tile: it is not a SizedTile",
    ),
    "an error": (raises, "failed: IndexError: out of ideas"),
    "too few parameters": (lambda k: k, "failed: TypeError"),
    "a verdict that is none": (
        ByPairs(lambda merge, facts: True),
        "returned a bool, and must return",
    ),  # type: ignore[arg-type, return-value]
    "a verdict that raises": (ByPairs(lambda merge, facts: 1 / 0), "failed: ZeroDivisionError"),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_ends_in_one_sentence(what: str, program: Program) -> None:
    policy, rule = BAD[what]
    with pytest.raises(BadPolicy, match=rule) as told:
        welded(program, policy)
    sentence = told.value.sentence
    assert "Welder's policy" in sentence and "'main'" in sentence
    assert "\n" not in sentence and len(sentence) < 600


def test_a_sound_policy_of_ones_own_is_taken(program: Program) -> None:
    after = welded(program, swallowed)
    assert len(after.kernel_calls) == 5
    assert after.decisions.tile_graph is not None
    assert after.decisions.tile_graph.policy == "swallowed"


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", POLICIES)
@settings(QUIET, max_examples=20)
@given(program=programs())
def test_what_policies_with_a_name_give_keeps_every_rule(policy: str, program: Program) -> None:
    before = kernels_of(program)
    after = Weld(DEVICE, Price(DEVICE), Options(policy=POLICIES[policy]))(before)
    named = Weld(DEVICE, Price(DEVICE), Options(policy=policy))(before)
    assert after.functions == named.functions


def test_every_kernel_apart_keeps_every_rule(program: Program) -> None:
    assert (
        welded(program, no_fusion).functions
        == Weld(DEVICE, Price(DEVICE), Options(enabled=False))(program).functions
    )


def test_options_by_hand_are_judged_when_they_are_made() -> None:
    with pytest.raises(BadOption, match=r"welder\.policy is a function or one of"):
        Options(policy=None)  # type: ignore[arg-type]
    for wrong in ("a", ("a",), ("a", None), 3):
        with pytest.raises(BadOption, match="pairs of a value and a level"):
            Options(connect=(wrong,))  # type: ignore[arg-type]
