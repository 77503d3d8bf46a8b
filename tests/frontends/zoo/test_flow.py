"""The models with control flow: traced, in NumPy and compiled they agree, and a run is one launch
that Python does not enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.zoo.entries import GRINDER
from explorer.frontends.zoo.flow import Flow
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.control import TaskTree
from explorer.process.counters import counters
from tests.benchmarks.recursive_autoencoder import random_tree
from tests.frontends.zoo.flows_in_numpy import run

Feeds = dict[str, np.ndarray]
REDUCED = [e.name for e in GRINDER if e.name.startswith(zoo.SMALL)]
FULL = [e.name for e in GRINDER if e.name not in REDUCED]
# Their reduced forms are held every time.
EXHAUSTIVE = {"skipnet", "blockdrop", "beam_search", "llama"}
KINDS = {  # what control flow is in each
    "nasrnn": {"loop"},
    "looped_lstm": {"loop"},
    "attention_decoding": {"loop"},
    "seq2seq_decoder": {"loop"},
    "beam_search": {"loop"},
    "blockdrop": {"branch"},
    "skipnet": {"branch"},
    "moe": {"loop", "branch"},
    "recursive_autoencoder": {"call", "branch"},
    "llama": {"loop", "branch"},
}
EXACT = ("words", "steps", "wanted", "run", "expert", "count")
PROMPT = 5
BATCHES = (1, 3, 2, 17)


def flow_of(name: str) -> Flow:
    source = zoo.entry(name).source
    assert isinstance(source, zoo.Written)
    return source.flow


@cache
def compiled(name: str, threads: int = 0) -> Compilation:
    found = explorer.compile(zoo.load(name))
    if not threads:
        return found
    return found.with_options(rammer=replace(found.options.rammer, threads=threads))


def feeds(name: str, batch: int, seed: int = 0) -> Feeds:
    """Inputs; sentences end in the middle, where they did not end before."""
    rng = np.random.default_rng(seed)
    found = {}
    for n, kind in flow_of(name).inputs.items():
        shape = [d if isinstance(d, int) else PROMPT if str(d) == "n" else batch for d in kind.dims]
        found[n] = rng.standard_normal(shape, np.float32)
        if n == "prompt":
            found[n] = rng.integers(0, 61, shape)
        elif n == "steps":
            found[n] = np.int64(7)
        elif n == "noise":
            found[n] = rng.random(shape, np.float32)
        elif kind.dims == ():  # of odd seeds a word is drawn, of even ones the best is taken
            found[n] = np.float32(0.9 if n == "top_p" else seed % 2)
        if n == "image":  # of a colour of its own, which what looks at all of it can see
            found[n] += 2 * rng.standard_normal((shape[0], 3, 1, 1), np.float32)
        if n == "ending":
            found[n] = ending(shape[0], shape[0] // 2)
        if n in ("left", "right"):  # of many seeds some trees are a root alone
            room = shape[0]
            links = random_tree(2 * (seed % 3 * room // 4) + 1, batch, room)
            found[n] = links[n == "right"]
    return found


def ending(most: int, last: int) -> np.ndarray:
    """Step `last` ends every sentence, and none before does."""
    return np.where(np.arange(most) >= last, 60, -60).astype(np.float32)


def near(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, right in wanted.items():
        assert found[name].shape == right.shape, name
        if name in EXACT:
            np.testing.assert_array_equal(found[name], right, err_msg=name)
        else:
            atol = 1e-5 * np.abs(right).max()
            np.testing.assert_allclose(found[name], right, atol=atol, err_msg=name)


def trees(tree: TaskTree) -> Iterator[TaskTree]:
    yield tree
    for part in tree.parts:
        yield from trees(part)


def test_the_models_of_the_paper_are_there_at_two_sizes() -> None:
    assert set(FULL) == set(KINDS) == {name.removeprefix(zoo.SMALL) for name in REDUCED}
    assert set(FULL + REDUCED) < set(zoo.names())


@pytest.mark.parametrize("name", [*FULL, *REDUCED])
def test_a_model_has_the_weights_that_its_entry_says(name: str) -> None:
    assert sum(w.count for w in flow_of(name).weights) == zoo.entry(name).weights


def test_the_sizes_are_those_of_the_paper() -> None:
    shapes = {n: [str(t) for t in flow_of(n).inputs.values()] for n in FULL}
    assert shapes["nasrnn"] == ["float32[1000, batch, 256]"]
    assert shapes["looped_lstm"] == ["float32[64, batch, 256]"]
    assert shapes["attention_decoding"][1:] == ["float32[batch, 12, 32, 64]"] * 2
    assert shapes["seq2seq_decoder"] == ["float32[batch, 256]"] * 2 + ["float32[50]"]
    assert shapes["blockdrop"] == ["float32[batch, 3, 32, 32]"]
    assert shapes["skipnet"] == ["float32[1, 3, 224, 224]"]
    assert zoo.entry("skipnet").weights > 42_000_000  # of ResNet-101, without its head
    assert {w.name: w.shape for w in flow_of("seq2seq_decoder").weights}["scores.weight"][1] == 3797


@pytest.mark.few(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", REDUCED)
def test_a_reduced_model_answers_like_numpy_at_every_batch(name: str, threads: int) -> None:
    c = compiled(name, threads)
    assert c.program.library_calls == ()
    for batch in (1,) if name.endswith("skipnet") else BATCHES:  # of a tree, its seed
        for seed in range(3):
            given = feeds(name, batch, seed)
            near(c.run(given), run(flow_of(name), given))


@pytest.mark.parametrize("name", REDUCED)
def test_the_text_itself_runs_in_numpy(name: str) -> None:
    given = feeds(name, 1)
    near(zoo.reference(name, given), run(flow_of(name), given))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", REDUCED)
def test_all_control_flow_is_on_the_device_and_a_run_is_one_launch(name: str) -> None:
    c = compiled(name)
    assert c.program.decisions.tasks is not None
    every = list(trees(c.program.decisions.tasks))
    assert {t.kind for t in every} >= KINDS[name.removeprefix(zoo.SMALL)]
    assert {t.level for t in every} == {"device"}
    given = feeds(name, 1)
    c.run(given)
    with counters.delta() as did:
        c.run(given)
    assert did.interpreted_kernels == did.host_reads == did.library_calls == 0
    assert did.kernel_compiles == did.regions_run == 0  # no part between two decisions of the host
    assert did.replays == 1
    (traced,) = c.executable.traced(given)
    assert len(traced.launches) == 1 and not traced.calls


@pytest.mark.parametrize("name", ["small_seq2seq_decoder", "small_beam_search"])
@pytest.mark.parametrize("last", [0, 1, 5, 6])
def test_data_end_a_decoder(name: str, last: int) -> None:
    given = {**feeds(name, 3), "ending": ending(6, last)}
    found = compiled(name).run(given)
    near(found, run(flow_of(name), given))
    one_beam = name.endswith("beam_search") and not last  # three more begin in the next step
    assert found["steps"] == min(last + 1, 6) + one_beam


def test_a_decoder_ends_when_its_last_sentence_does() -> None:
    name = "small_seq2seq_decoder"
    steps = set()
    for seed in range(6):
        given = {**feeds(name, 2, seed), "ending": np.full(6, 2.0, np.float32)}
        found = compiled(name).run(given)
        near(found, run(flow_of(name), given))
        steps.add(int(found["steps"]))
    assert len(steps) > 1


@pytest.mark.parametrize("name", ["small_blockdrop", "small_skipnet"])
def test_images_choose_their_own_blocks(name: str) -> None:
    found = {int(compiled(name).run(feeds(name, 1, seed))["run"]) for seed in range(12)}
    assert len(found) > 1


def test_every_expert_is_asked_by_some_token() -> None:
    name = "small_moe"
    given = feeds(name, 200)
    found = compiled(name).run(given)
    near(found, run(flow_of(name), given))
    assert set(found["expert"].tolist()) == set(range(8))


def test_nan_goes_through_a_recurrence_and_stays_in_its_row() -> None:
    given = feeds("small_nasrnn", 3)
    given["x"][2, 1, 0] = np.nan
    found = compiled("small_nasrnn").run(given)["state"]
    assert np.isnan(found).all(axis=1).tolist() == [False, True, False]
    assert not np.isnan(found[[0, 2]]).any()


def test_a_model_with_control_flow_has_no_onnx_form() -> None:
    with pytest.raises(BadOption, match="no ONNX form"):
        zoo.proto("small_nasrnn")


def test_one_seed_gives_one_model() -> None:
    first, again, other = (zoo.load("small_moe", seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n in EXHAUSTIVE else ()) for n in FULL],
)
def test_a_full_model_answers_like_numpy(name: str) -> None:
    given = feeds(name, 1)
    near(compiled(name).run(given), run(flow_of(name), given))


def test_operators_are_from_the_lines_of_the_model() -> None:
    files = {s.name.split(":")[0] for s in zoo.load("small_nasrnn").program.sources}
    assert files == {"loops.py"}


@pytest.mark.parametrize("n", [1, 2, 23, 24])
@pytest.mark.parametrize("steps", [0, 1, 100])
def test_a_language_model_goes_on_until_its_room_is_full(n: int, steps: int) -> None:
    rng = np.random.default_rng(n)
    given = {
        **feeds("small_llama", 2, seed=1),
        "prompt": rng.integers(0, 61, (2, n)),
        "steps": np.int64(steps),
    }
    found = compiled("small_llama").run(given)
    near(found, run(flow_of("small_llama"), given))
    assert found["count"] == min(steps, 24 - n)


def test_a_language_model_s_caches_stay_where_they_lie() -> None:
    calls = (b.expr for _, b in compiled("small_llama").program.bindings())
    over = [c.kernel.updates for c in calls if isinstance(c, KernelCall)]
    assert sum(map(len, over)) == 2 * 2 + 1  # of two layers keys and values, and what was said
