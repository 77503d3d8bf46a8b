"""One compilation for batch 1 to 64 and length 2 to 512: the answers and the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.counters import counters
from tests.conformance.answers import Oracle, agree

DATA = Path(__file__).parent.parent / "data"
NAMES = ["tiny_bert", "tiny_gpt2", "tiny_llama"]
CORNERS = [(1, 2), (1, 512), (64, 2), (64, 512)]
ODD = [(1, 7), (2, 511), (3, 509), (61, 3), (63, 64), (13, 127)]
RANDOM = 24


def pairs(seed: int) -> list[tuple[int, int]]:
    """Corners, primes and limits, and sizes that are spread over their magnitudes."""
    rng = np.random.default_rng(seed)
    batches = np.exp(rng.uniform(0, np.log(64.99), RANDOM)).astype(int)
    lengths = np.exp(rng.uniform(np.log(2), np.log(512.99), RANDOM)).astype(int)
    return [*CORNERS, *ODD, *zip(batches.tolist(), lengths.tolist())]


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a5_01_one_artifact_serves_every_batch_and_length(name: str) -> None:
    path = DATA / f"{name}.onnx"
    compiled, oracle = explorer.compile(path), Oracle(path)
    kernels = len(compiled.kernels)
    rng = np.random.default_rng(1)
    with counters.delta() as did:
        for batch, seq in pairs(len(name)):
            x = {"x": rng.integers(0, 500, (batch, seq))}
            agree(compiled.run(x), oracle(x))
    assert did.kernel_compiles == 0 and did.pass_runs == 0
    assert len(compiled.kernels) == kernels
