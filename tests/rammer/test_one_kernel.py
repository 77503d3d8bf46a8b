"""All operators with one kind of rKernel."""

import pytest

from explorer.errors import BadOption
from explorer.rammer import Facts, Options, RKernel, ROperator, VDevice, schedule
from explorer.rammer.manual_moves import PolicyWithMoves
from explorer.rammer.policy import OneKernel


def facts() -> Facts:
    kernels = (RKernel("fastest", 8, 3.0), RKernel("efficient", 2, 8.0))
    operators = tuple(ROperator(n, 8, 3.0, r, kernels=kernels) for n, r in (("a", ()), ("b", (0,))))
    return Facts(operators, VDevice(8, 1.0, 1.0))


def test_every_share_is_of_the_kind_that_was_asked_for() -> None:
    for which, kernel, tasks in (("fastest", 0, 8), ("efficient", 1, 2)):
        policy = OneKernel("wavefront", which)
        made = schedule(facts(), Options(policy=policy))
        assert {s.kernel for p in made.placement.programs for s in p} == {kernel}
        assert sum(b.last - b.first for b in made.wall.bricks if b.call == "a") == tasks
        assert made.wall.policy == f"wavefront, {which} rKernels"


def test_operators_with_one_kernel_stay_as_they_are() -> None:
    plain = Facts((ROperator("a", 3, 1.0),), VDevice(2))
    assert len(schedule(plain, Options(policy=OneKernel("gang", "efficient"))).wall.bricks) > 0


def test_names_that_there_are_not_are_refused_at_once() -> None:
    with pytest.raises(BadOption, match="found 'wavefrnt'"):
        OneKernel("wavefrnt", "fastest")
    with pytest.raises(BadOption, match="found 'wavefrnt'"):
        PolicyWithMoves("wavefrnt")
    with pytest.raises(BadOption, match="'slowest'"):
        OneKernel("wavefront", "slowest")
