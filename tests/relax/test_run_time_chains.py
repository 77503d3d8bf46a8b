"""Programs whose shapes depend on values: every stage and the compiled program answer alike."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings

import explorer
from explorer.ops.reference.evaluate import evaluate
from explorer.ops.reference.verify import verify
from tests.examples import examples
from tests.ops.one_operator import agree, oracle
from tests.strategies.onnx.run_time_chains import Chain, chains

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def loaded(chain: Chain, folder: str) -> tuple[onnx.ModelProto, explorer.Model]:
    model, path = chain.model(), Path(folder) / "chain.onnx"
    onnx.save(model, path)
    return model, explorer.load(path, {"n0": (0, None)})


@settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
@given(chains())
def test_every_stage_means_the_same(chain: Chain) -> None:
    with TemporaryDirectory() as folder:
        model, source = loaded(chain, folder)
        wanted = oracle(model, chain.feeds)
        for step in explorer.compile(source, until="rolled").snapshots:
            verify(step.after)
            found = evaluate(step.after, chain.feeds)
            for mine, right in zip(found.values(), wanted, strict=True):
                agree(np.asarray(mine), right, 1e-5, step.name)


@settings(max_examples=examples(12, few=5), deadline=None, suppress_health_check=SLOW)
@given(chains())
def test_compiled_programs_mean_the_same(chain: Chain) -> None:
    with TemporaryDirectory() as folder:
        model, source = loaded(chain, folder)
        found = explorer.compile(source).run(chain.feeds)
        for mine, right in zip(found.values(), oracle(model, chain.feeds), strict=True):
            agree(np.asarray(mine), right, 1e-5, "run")
