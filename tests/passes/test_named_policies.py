"""A policy of one's own has a name, in options, on the command line and in the house."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.cli import main
from explorer.compiler.options import Options
from explorer.errors import BadOption, BadPolicy
from explorer.memory.plan import Options as Memory
from explorer.passes import policy_call
from explorer.passes.content import content_key
from explorer.process.user_code import rollback_on_error
from explorer.rammer import Facts, Placement, Share
from explorer.rammer import Options as Rammer
from explorer.roller import Options as Roller
from explorer.roller.policy import candidates
from explorer.tuning.settings import apply
from explorer.welder import Options as Welder
from explorer.welder.options import no_fusion
from widgets.memory import memory_policies
from widgets.model.knobs import Setting, knobs

MODEL = "tests/data/tiny_skip.onnx"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    class Back(Exception):
        pass

    try:
        with rollback_on_error():
            yield
            raise Back
    except Back:
        pass


def one_unit(facts: Facts) -> Placement:
    shares = (Share(n, 0, 0, o.tasks) for n, o in enumerate(facts.operators))
    return Placement((tuple(shares),))


def units(c: Any) -> set[int]:
    return {b.unit for b in c.planned_wall().bricks}


def test_a_name_is_taken_by_options_and_shown_as_it_is() -> None:
    explorer.policy("one unit", system="rammer")(one_unit)
    c = explorer.compile(MODEL, options=Options(rammer=Rammer(policy="one unit")))
    assert c.options.rammer.policy_name == "one unit" and units(c) == {0}
    assert c.program.decisions.rammer.policy_name == "one unit"
    assert apply(Options(), ["rammer.policy=one unit"]).rammer.policy is one_unit


def test_run_again_a_cell_takes_the_place_of_what_it_registered() -> None:
    explorer.policy("mine", system="rammer")(one_unit)
    before = explorer.compile(MODEL, options=Options(rammer=Rammer(policy="mine")))

    @explorer.policy("mine", system="rammer")
    def last_unit(facts: Facts) -> Placement:
        last = facts.device.units - 1
        shares = (Share(n, last, 0, o.tasks) for n, o in enumerate(facts.operators))
        return Placement((tuple(shares),))

    after = before.with_options(rammer=Rammer(policy="mine", threads=2))
    assert units(after) == {1} and units(before) == {0}


def test_roller_and_welder_take_names_too() -> None:
    @explorer.policy("widest", system="roller")
    def widest(kernel: Any, device: Any, env: Any, sizes: Any) -> Any:
        found = (c for c in candidates(kernel, device, env, sizes, 20) if not c.refused)
        yield from sorted(found, key=lambda c: -(c.value.size("j") or 0))

    explorer.policy("alone", system="welder")(no_fusion)
    options = Options(welder=Welder(policy="alone"), roller=Roller(policy="widest"))
    c = explorer.compile(MODEL, options=options, check=True)
    assert all(s.checked is not False and not isinstance(s.checked, str) for s in c.snapshots)
    assert c.options.welder.name == "alone"
    fused = explorer.compile(MODEL)
    assert len(c.program.kernel_calls) > len(fused.program.kernel_calls)


@pytest.mark.exhaustive
def test_memory_takes_one_that_says_which_free_storage_a_value_has() -> None:
    asked = []

    @explorer.policy("first of equals", system="memory")
    def first_of_equals(needed: Any, free: Any, env: Any) -> Any:
        asked.append(needed)
        return next((f for f in free if env.equal(needed, f.bytes)), None)

    c = explorer.compile(
        "tests/data/tiny_bert.onnx", options=Options(memory=Memory(policy="first of equals"))
    )
    sizes = {"batch": 2, "seq": 5}
    plan, inputs = c.memory(sizes), c.random_inputs(sizes)
    shipped = c.with_options(memory=Memory(policy="storages"))
    assert asked and plan.planned_bytes == shipped.memory(sizes).planned_bytes < plan.naive_bytes
    assert any("first of equals takes its" in b.reason for b in plan.buffers)
    for name, value in shipped.run(inputs).items():
        np.testing.assert_array_equal(c.run(inputs)[name], value)
    rows = memory_policies.data(c, sizes, plan).policies
    assert [r.name for r in rows if r.used] == ["first of equals"] and len(rows) == 5


@pytest.mark.parametrize(
    ("choose", "why"),
    [
        (lambda needed, free, env: 3, "not a free buffer"),
        (lambda needed, free, env: max(free, key=lambda f: -env.hint(f.bytes)), "not provably"),
        (lambda needed, free, env: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_a_storage_that_a_policy_may_not_give_is_refused(choose: Any, why: str) -> None:
    c = explorer.compile(
        "tests/data/tiny_bert.onnx",
        options=Options(memory=Memory(policy=choose)),
        until="planned",
    )
    with pytest.raises(BadPolicy, match="Memory's policy .*" + why):
        c.memory({"batch": 2, "seq": 5})


def test_the_house_has_it_among_its_choices() -> None:
    explorer.policy("one unit", system="rammer")(one_unit)
    c = explorer.compile(MODEL)
    setting = Setting(c, ())
    knob = next(k for k in knobs(setting, setting, "") if k.name == "policy")
    assert "one unit" in knob.labels and one_unit in knob.values


def test_a_file_names_one_for_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import explorer\nfrom explorer.rammer import Placement, Share\n\n\n"
        '@explorer.policy("from a file", system="rammer")\n'
        "def mine(facts):\n"
        "    shares = [Share(n, 0, 0, o.tasks) for n, o in enumerate(facts.operators)]\n"
        "    return Placement((tuple(shares),))\n"
    )
    words = ["--plugin", str(file), "--set", "rammer.policy=from a file"]
    assert main(["explain", MODEL, "--stage", "rammer", *words]) == 0
    assert "policy from a file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "system", "why"),
    [
        ("wavefront", "rammer", "has a policy 'wavefront' already"),
        ("construct", "roller", "has a policy 'construct' already"),
        ("", "rammer", "needs a name"),
        ("a=b", "welder", "needs a name"),
        ("mine", "grinder", "no policies of 'grinder' are known"),
        ("mine", "roller", "cannot be called as roller calls one"),
        ("storages", "memory", "has a policy 'storages' already"),
        ("mine", "memory", "cannot be called as memory calls one"),
    ],
)
def test_what_is_no_policy_is_one_sentence(name: str, system: str, why: str) -> None:
    with pytest.raises(BadOption, match=why):
        explorer.policy(name, system=system)(one_unit)
    assert not policy_call.by_system(system)


def test_a_name_that_is_forgotten_or_unknown_is_told() -> None:
    explorer.policy("one unit", system="rammer")(one_unit)
    with pytest.raises(BadOption, match=r"one of wavefront.*, one unit, found 'two units'"):
        Rammer(policy="two units")
    explorer.forget_policy("one unit", system="rammer")
    with pytest.raises(BadOption, match=r"rammer\.policy is a function or one of"):
        Rammer(policy="one unit")
    with pytest.raises(BadOption, match="no policy 'one unit' of your own"):
        explorer.forget_policy("one unit", system="rammer")


def test_what_it_raises_is_told_under_its_name() -> None:
    @explorer.policy("breaks", system="rammer")
    def breaks(facts: Facts) -> Placement:
        raise ValueError("no idea")

    c = explorer.compile(MODEL, options=Options(rammer=Rammer(policy="breaks")))
    with pytest.raises(BadPolicy, match=r"policy 'breaks'.*no idea"):
        c.planned_wall()


def test_a_policy_that_ships_is_loaded_when_asked_for_and_keys_do_not_tell() -> None:
    shipped = policy_call.ShippedPolicies({"exact": "fractions.Fraction"})
    before = content_key(shipped)
    assert "exact" in shipped and "other" not in shipped and list(shipped) == ["exact"]
    assert shipped["exact"](1, 2) + shipped["exact"](1, 2) == 1
    assert content_key(shipped) == before
