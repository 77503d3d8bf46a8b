"""Exercise: a fusion policy that knows only the size of a cache."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor
from explorer.ir.decisions.candidate import Candidate
from explorer.options import Options
from explorer.welder import Options as Welder
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

LIMIT = 16 * 1024
MODELS = ("zoo:small_nerf", "zoo:tiny_bert")


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
            bool(refused) == (size <= LIMIT),
            f"{name}: a value of {size} bytes {'is stored' if refused else 'stays on the chip'}, "
            f"and the limit is {LIMIT}",
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
    for model in MODELS:
        _check_decisions(answer, model, model)


_HEAD = '''\
from explorer.ir.decisions.candidate import Candidate
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

LIMIT = 16 * 1024  # bytes that stay in the nearest cache


def verdict(merge, facts):
    """Return a candidate that accepts or refuses to fuse `merge.producer` into `merge.consumer`."""
'''
_END = "\n\nlarge_values = ByPairs(verdict)\n"

EXERCISE = Exercise(
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
    stub=_HEAD + "    raise NotImplementedError\n" + _END,
    solution=_HEAD
    + """\
    size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    saved = (("bytes between", -2.0 * size),)
    if size > LIMIT:
        return Candidate("", True, saved)
    return Candidate("", False, saved, f"{size} bytes stay in the cache")
"""
    + _END,
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
