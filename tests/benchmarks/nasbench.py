"""Random NASBench modules under every policy, as section 5.2 of the Rammer paper has them.

    python -m tests.benchmarks nasbench [--modules 5000] [--first 0] [--compiled 100]

Plans: every task once, nothing before what it reads in a drawn interleaving, and wavefront's plan
never slower than op-by-op's; printed are how much faster each policy's plan is on average and at
best (paper: 1.28 and 3.40 times). Compiled: the numbers of every policy are those of NumPy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter

import numpy as np

import explorer
from explorer.frontends import zoo
from explorer.rammer import POLICIES, Options, schedule
from tests.rammer.modules import check, module_facts


def planned(first: int, modules: int) -> None:
    """Plans of random modules from the seed `first` on; prints the gain of each policy over
    op-by-op.
    """
    begin, gains = perf_counter(), {policy: [] for policy in POLICIES}
    slower = 0
    for seed in range(first, first + modules):
        facts = module_facts(seed)
        total = {}
        for policy in POLICIES:
            made = schedule(facts, Options(policy=policy))
            check(facts, made, seed)
            total[policy] = made.wall.total_us
        slower += total["wavefront"] > total["op-by-op"] * (1 + 1e-9)
        for policy, us in total.items():
            gains[policy].append(total["op-by-op"] / us)
    print(f"{modules} random modules planned in {perf_counter() - begin:.0f} s;", end=" ")
    print(f"wavefront is slower than op-by-op in {slower}")
    for policy, found in gains.items():
        mean, most, least = np.mean(found), np.max(found), np.min(found)
        print(f"{policy:18} x{mean:.2f} on average, x{most:.2f} at best, x{least:.2f} at worst")


def compiled(first: int, modules: int) -> None:
    """Compiled modules from the seed `first` on, under every policy, against NumPy."""
    begin, worst = perf_counter(), 0.0
    for seed in range(first, first + modules):
        name = f"zoo:nasbench_{seed}"
        image = np.random.default_rng(seed).standard_normal((1, 24, 8, 8), np.float32)
        right = zoo.reference(name, {"image": image})["image_out"]
        module = explorer.compile(name)
        for policy in POLICIES:
            c = module.with_options(rammer=Options(policy=policy))
            found = c.run({"image": image})["image_out"]
            np.testing.assert_allclose(found, right, 1e-3, 1e-4, err_msg=f"{name}, {policy}")
            worst = max(worst, float(np.abs(found - right).max()))
    seconds = perf_counter() - begin
    print(
        f"{modules} compiled modules, {len(POLICIES)} policies: right answers, at most {worst:.1e}"
    )
    print(f"off NumPy's; {seconds:.0f} s")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--compiled", type=int, default=100)
    arguments = parser.parse_args(words)
    if arguments.modules:
        planned(arguments.first, arguments.modules)
    if arguments.compiled:
        compiled(arguments.first, arguments.compiled)


if __name__ == "__main__":
    main()
