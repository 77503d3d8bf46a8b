"""NASBench-style random modules; `python -m tests.benchmarks.nasbench` takes 5,000 of them."""

import numpy as np
import pytest

import explorer
from explorer.frontends import zoo
from explorer.rammer import POLICIES, Options, schedule
from tests.rammer.modules import check, module_facts


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_policy_runs_random_modules_and_wavefront_is_never_behind_op_by_op(first):
    for seed in range(first, first + 50):
        facts = module_facts(seed)
        total = {}
        for policy in POLICIES:
            made = schedule(facts, Options(policy=policy))
            check(facts, made, seed)
            total[policy] = made.wall.total_us
        assert total["wavefront"] <= total["op-by-op"] * (1 + 1e-9), seed


@pytest.mark.parametrize("seed", range(2))
def test_every_policy_gives_a_compiled_module_the_answers_of_numpy(seed):
    name = f"zoo:nasbench_{seed}"
    image = np.random.default_rng(seed).standard_normal((1, 24, 8, 8), np.float32)
    right = zoo.reference(name, {"image": image})["image_out"]
    compiled = explorer.compile(name)
    for policy in POLICIES:
        c = compiled.with_options(rammer=Options(policy=policy))
        np.testing.assert_allclose(c.run({"image": image})["image_out"], right, 1e-3, 1e-4)
