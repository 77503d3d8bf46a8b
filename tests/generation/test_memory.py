"""Anonymous memory of loading, compiling and running a language model, over its file's bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import explorer
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation import generate
from explorer.generation.generate import DECODE, PREFILL
from tests.benchmarks.generation import memory_of
from tests.benchmarks.generation_peers.engines import F32
from tests.benchmarks.generation_peers.model_files import write_gguf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory")

# Without an array in two layouts, of which one is dropped, they were 2.2, 6.0 and 10.7. Objects
# and scratch are 10 MB of them, which counts most in the smallest file.
MOST_OVER_FILE = {F32: 1.5, "Q8_0": 2.4, "Q4_0": 3.2}


@pytest.mark.parametrize("kind", MOST_OVER_FILE)
def test_weights_take_memory_only_as_kernels_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.setenv(name, str(1 << 17))  # so that what is freed is given back
    path, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    write_gguf(path, "18M", kind)
    write_gguf(other, "18M", kind, seed=1)
    size = path.stat().st_size
    loaded, _, generated = memory_of(path, other)
    assert loaded < 0.1 * size  # weights are mapped
    assert generated < MOST_OVER_FILE[kind] * size


def test_a_small_budget_has_the_weights_in_one_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of a step reads the prompt too; the tokens are the same."""
    write_gguf(tmp_path / "model.gguf", "18M", F32)
    model = explorer.load(tmp_path / "model.gguf")
    assert isinstance(model, LanguageModel)
    prompt = list(range(3, 60))
    c = explorer.compile(model, donate=model.caches)
    expected = explorer.generate(c, prompt, 4)
    assert {kind for kind, _ in generate._plans[c]} == {PREFILL, DECODE}
    monkeypatch.setenv("IRONWORKS_MEMORY", "200MB")
    small = explorer.compile(model, donate=model.caches)
    assert explorer.generate(small, prompt, 4).ids == expected.ids
    assert {kind for kind, _ in generate._plans[small]} == {DECODE}
