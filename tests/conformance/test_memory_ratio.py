"""Planned bytes as a share of all intermediates, for the bindings that one compilation serves."""

import random

import pytest

import explorer
from explorer.memory.plan import Options
from explorer.welder import Options as Welding

MOST = 0.6  # what is asked for, of the intermediates of the same program
BINDINGS = [(batch, seq) for batch in (1, 64) for seq in (2, 512)]
MODELS = ["tiny_bert", "tiny_gpt2", "tiny_llama"]


def bindings():
    """The corners of batch 1 to 64 by seq 2 to 512, and 30 random ones, primes among them."""
    rng = random.Random(0)
    inside = [(rng.randint(1, 64), rng.randint(2, 512)) for _ in range(24)]
    return [*BINDINGS, *inside, (1, 3), (2, 511), (7, 13), (61, 127), (64, 509), (3, 2)]


# What is welded would count on neither side, and how much that is differs between machines.
APART = Welding(enabled=False)
POLICIES = {
    "arena": (Options(), MOST),
    "storages": (Options(policy="storages", ordered=True), MOST),
    "storages with the paper's proofs of equality": (Options(policy="storages"), 0.61),
}


@pytest.fixture(scope="module", params=MODELS)
def compiled(request):
    path = f"tests/data/{request.param}.onnx"
    welded = {"welded": explorer.compile(path, until="planned")}
    return welded | {
        name: explorer.compile(
            path, options=explorer.Options(memory=options, welder=APART), until="planned"
        )
        for name, (options, _) in POLICIES.items()
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("name", POLICIES)
def test_planned_bytes_are_a_share_of_all_intermediates_at_most(compiled, name):
    c, (options, most) = compiled[name], POLICIES[name]
    for batch, seq in bindings():
        found = c.memory({"batch": batch, "seq": seq})
        own = [r for r in found.buffers if not r.alias_of]
        if options.policy == "arena":
            assert found.naive_bytes == sum(-(-r.bytes // 64) * 64 for r in own)
        assert found.planned_bytes <= most * found.naive_bytes, (batch, seq)


@pytest.mark.exhaustive
def test_welding_takes_no_more_memory(compiled):
    for batch, seq in bindings():
        sizes = {"batch": batch, "seq": seq}
        welded, apart = (compiled[k].memory(sizes) for k in ("welded", "arena"))
        assert welded.planned_bytes <= apart.planned_bytes, sizes


def test_no_value_is_live_above_the_planned_bytes(compiled):
    """What lives at a moment is a bound from below for any plan."""
    found = compiled["arena"].memory({"batch": 2, "seq": 77})
    own = [r for r in found.buffers if not r.alias_of]
    ends = max(r.last for r in own) + 1
    live = [sum(r.bytes for r in own if r.first <= p <= r.last) for p in range(ends)]
    assert max(live) <= found.planned_bytes
