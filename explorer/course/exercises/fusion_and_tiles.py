"""Exercises on policies of fusion (chapter 03) and of tiles (chapter 04)."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile, device_of
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.roller import Options as Roller
from explorer.roller.policy import tile_candidates
from explorer.welder import Options as Welder
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

NEAR_BYTES = 16 * 1024
FUSION_MODELS = ("zoo:small_nerf", "zoo:tiny_bert")


def _chain(rows: int, widths: tuple[int, ...]) -> Any:
    """Return a model with a product and an exp for each width but the first."""
    first, *others = widths
    weights = [np.ones(pair, np.float32) for pair in zip(widths, others)]

    def run(x: Any) -> Any:
        for w in weights:
            x = enp.exp(x @ w)
        return x

    return load(trace(lambda x: run(x))(tensor("float32", rows, first)))


def _groups(model: Any, verdict: Any) -> tuple[Any, ...]:
    options = Options(welder=Welder(policy=ByPairs(verdict)), registered=False)
    c = compile(model, options=options, until="welded")
    graph = c.program.decisions.tile_graph
    return graph.groups if graph is not None else ()


def _check_decisions(answer: Any, model: Any, name: str) -> None:
    """Check that every merge was decided by the size of the value between its kernels."""
    seen: list[tuple[int, str]] = []

    def recording(merge: Any, facts: Any) -> Any:
        decision = answer(merge, facts)
        if isinstance(decision, Candidate):
            size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
            seen.append((size, decision.refused))
        return decision

    _groups(model, recording)
    for size, refused in seen:
        require(
            bool(refused) == (size <= NEAR_BYTES),
            f"{name}: a value of {size} bytes {'is stored' if refused else 'stays on the chip'}, "
            f"and the limit is {NEAR_BYTES}",
        )
        require(
            not refused or str(size) in refused.replace(",", ""),
            f"{name}: a value of {size} bytes is refused, and the reason does not say how large it "
            f"is: {refused!r}",
        )


def _check_near_limit(answer: Any, seed: int) -> None:
    for rows in (63, 64, 65):  # 64 rows of 64: exactly the limit
        _check_decisions(answer, _chain(rows, (64, 64, 64)), f"{rows} rows of 64")


def _check_random_chains(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(4):
        rows, widths = rng.randint(1, 200), tuple(rng.randint(1, 120) for _ in range(4))
        _check_decisions(answer, _chain(rows, widths), f"{rows} rows, widths {list(widths)}")


def _check_traffic(answer: Any, seed: int) -> None:
    """Check the memory traffic between the kernels of a model."""
    model = _chain(256, (32, 64, 32))
    moved = sum(g.bytes_after for g in _groups(model, answer))
    apart = sum(g.bytes_before for g in _groups(model, answer))
    most = apart - 2 * 2 * 256 * 32 * 4  # at least both exps are fused with their products
    require(moved <= most, f"{moved:,} bytes to and from memory; {most:,} are enough")


def _check_zoo_models(answer: Any, seed: int) -> None:
    for model in FUSION_MODELS:
        _check_decisions(answer, model, model)


_LARGE_VALUES_HEAD = '''\
from explorer.ir.decisions.candidate import Candidate
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

LIMIT = 16 * 1024  # bytes that stay in the nearest cache


def verdict(merge, facts):
    """Return a candidate that accepts or refuses to fuse `merge.producer` into `merge.consumer`."""
'''
_LARGE_VALUES_END = "\n\nlarge_values = ByPairs(verdict)\n"

LARGE_VALUES = Exercise(
    name="large_values",
    chapter="03_fusion",
    title="A fusion policy with one threshold",
    goal="A value of at most 16 KiB stays in the nearest cache, whether its kernels are fused or "
    "not; a larger one goes to memory and back. Write `verdict(merge, facts)`. If the value "
    "between the kernels has more than `LIMIT` bytes, return `Candidate('', True, terms)`, "
    "which fuses them. Otherwise return `Candidate('', False, terms, refused)`, where "
    "`refused` states the number of bytes. `ByPairs(verdict)` is a policy like the built-in "
    "ones.",
    answer="verdict",
    stub=_LARGE_VALUES_HEAD + "    raise NotImplementedError\n" + _LARGE_VALUES_END,
    solution=_LARGE_VALUES_HEAD
    + """\
    size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    saved = (("bytes between", -2.0 * size),)
    if size > LIMIT:
        return Candidate("", True, saved)
    return Candidate("", False, saved, f"{size} bytes stay in the cache")
"""
    + _LARGE_VALUES_END,
    hints=(
        "`bytes_at_hint(merge.consumer, merge.tensor, facts.env)` is the size of the value.",
        "A value of exactly `LIMIT` bytes stays in the cache.",
        "The reason is the fourth field of a Candidate: an f-string with the size.",
    ),
    checks=(
        Check("just below the limit, at it, and above", 2, _check_near_limit),
        Check("random chains of products", 2, _check_random_chains),
        Check("bytes to and from memory", 1, _check_traffic),
        Check("two models of the zoo", 1, _check_zoo_models, True),
    ),
    exit_question="What does this policy ignore, and which model would be slower because of it?",
    policy_of="welder",
    as_policy=ByPairs,
)


MANY = 200  # candidates that the check requests
TILE_TARGETS = ("cpu-avx2", "cpu-avx512")


def elements(kernel: Any, tiling: Tiling, env: Any) -> int:
    """Return the number of elements of a tile of the result."""
    count = 1
    for axis in kernel.computes[-1].axes:
        count *= tiling.size(axis.name) or env.hint(axis.extent)
    return count


def _product(m: int, n: int, k: int) -> Any:
    model = trace(lambda a, b: a @ b)(tensor("float32", m, k), tensor("float32", k, n))
    return load(model)


def _pareto_front(legal: list[Candidate[Tiling]], kernel: Any, env: Any) -> set[tuple[float, int]]:
    points = {(c.cost_us, elements(kernel, c.value, env)) for c in legal}
    return {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}


def _check_front(answer: Any, m: int, n: int, k: int, target: str) -> None:
    device = device_of(target)
    c = compile(_product(m, n, k), target=device, until="welded")
    kernel, env = c.program.kernel_calls[0].kernel_call.kernel, c.program.env
    legal = [x for x in tile_candidates(kernel, device, env, {}, MANY) if not x.refused]
    returned = list(answer(kernel, device, env, {}))
    name = f"{m} x {n} x {k} on {target}"
    require(bool(returned), f"{name}: no tile at all")
    require(
        all(not x.refused for x in returned), f"{name}: a tile that breaks a rule is among them"
    )
    points = [(x.cost_us, elements(kernel, x.value, env)) for x in returned]
    front = _pareto_front(legal, kernel, env)
    extra = sorted(set(points) - front)
    require(
        not extra,
        f"{name}: a tile of {extra[0][1] if extra else 0} elements at "
        f"{extra[0][0] if extra else 0:.2f} us is beaten by another in both",
    )
    missing = sorted(front - set(points))
    require(
        not missing,
        f"{name}: a tile of {missing[0][1] if missing else 0} elements at "
        f"{missing[0][0] if missing else 0:.2f} us is not beaten, and not given",
    )
    require(points == sorted(points), f"{name}: the fastest by the model must come first")


def _check_fixed_product(answer: Any, seed: int) -> None:
    for target in TILE_TARGETS:
        _check_front(answer, 256, 512, 384, target)


def _check_random_products(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(3):
        m, n, k = (rng.choice((1, 7, 32, 100, 128, 333)) for _ in range(3))
        _check_front(answer, m, n, k, rng.choice(TILE_TARGETS))


def _check_in_pipeline(answer: Any, seed: int) -> None:
    """Check the answer as Roller's policy: its first tile is used, and the values are right."""
    options = Options(roller=Roller(policy=answer), registered=False)
    c = compile(_product(40, 96, 24), options=options, check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, "; ".join(wrong))
    (decision,) = c.program.decisions.tilings
    kernel = c.program.kernel_calls[0].kernel_call.kernel
    first = next(iter(answer(kernel, c.device, c.program.env, {})))
    require(decision.chosen == first.value, "the tile in use is not the first that it gives")


_PARETO_HEAD = '''\
from explorer.roller.policy import candidates


def elements(kernel, tiling, env):
    """Return the number of elements of a tile of the result."""
    count = 1
    for axis in kernel.computes[-1].axes:
        count *= tiling.size(axis.name) or env.hint(axis.extent)
    return count


def pareto(kernel, device, env, sizes):
    """Yield the tiles that no other beats in both time and size, the fastest first."""
'''

PARETO = Exercise(
    name="pareto",
    chapter="04_tiles",
    title="Pareto-optimal tiles",
    goal="A small tile leaves more tasks for the cores; a large one reads less. Write a Roller "
    "policy `pareto` that yields the Pareto-optimal legal tiles, the fastest first. A tile "
    "is Pareto-optimal if no other tile is better in predicted time (`cost_us`) or in "
    "number of `elements` without being worse in the other; less is better. The compiler "
    "uses the first one.",
    answer="pareto",
    stub=_PARETO_HEAD + "    raise NotImplementedError\n",
    solution=_PARETO_HEAD
    + """\
    every = candidates(kernel, device, env, sizes, 200)
    legal = [c for c in every if not c.refused]
    points = sorted(
        ((c.cost_us, elements(kernel, c.value, env), n) for n, c in enumerate(legal))
    )
    least = float("inf")
    for _, size, n in points:
        if size < least:
            least = size
            yield legal[n]
""",
    hints=(
        "A candidate that breaks a rule has `refused`: leave it out.",
        "Sort by time. A tile is then dominated if an earlier one is not larger.",
        "One number is therefore enough for a scan of the sorted list: the smallest size so far.",
    ),
    checks=(
        Check("one product on two machines", 2, _check_fixed_product),
        Check("random products", 2, _check_random_products),
        Check("in the pipeline, as Roller's policy", 1, _check_in_pipeline),
        Check("other products", 1, lambda a, seed: _check_random_products(a, seed + 1), True),
    ),
    exit_question="Which third property of a tile would you compare on a GPU?",
    policy_of="roller",
)
