"""Exports with persistent workers compute the same on any number of threads, without races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.grinder import Options as GrinderOptions
from explorer.rammer import Options as RammerOptions
from tests.portable.c_build import Library, built, require_compiler, run
from tests.portable.cases import assert_close, assert_equal, compiled, from_onnx, inputs_of
from tests.strategies.onnx import graphs

RACES = ("-fsanitize=thread",)
MODELS = ("tiny_bert", "tiny_while", "small_beam_search", "small_moe")


@pytest.fixture(autouse=True)
def compiler() -> None:
    require_compiler()


@pytest.mark.parametrize("threads", (2, 3))
@pytest.mark.few(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_the_same_bits(name: str, threads: int, tmp_path: Path) -> None:
    c = compiled(name)
    inputs, expected = inputs_of(c), c.run(inputs_of(c))
    with Library(explorer.export(c, tmp_path / "out", threads=threads)).started() as library:
        for _ in range(10):
            assert_equal(library.run(inputs), expected)


@pytest.mark.parametrize("recursion", ("serial", "parallel", "auto"))
def test_recursive_calls_on_several_units(recursion: str, tmp_path: Path) -> None:
    options = explorer.Options(
        rammer=RammerOptions(threads=2), grinder=GrinderOptions(recursion=recursion)
    )
    c = explorer.compile(explorer.load("zoo:small_recursive_autoencoder"), options=options)
    inputs = inputs_of(c)
    with Library(explorer.export(c, tmp_path / "out", threads=2)).started() as library:
        for _ in range(10):
            assert_equal(library.run(inputs), c.run(inputs))


@pytest.mark.parametrize("policy", ("wavefront", "gang", "op-by-op"))
def test_every_policy(policy: str, tmp_path: Path) -> None:
    options = explorer.Options(rammer=RammerOptions(threads=3, policy=policy))
    c = explorer.compile(explorer.load("zoo:small_moe"), options=options)
    inputs = inputs_of(c)
    written = explorer.export(c, tmp_path / "out", threads=3)
    with Library(written).started() as library:
        for _ in range(10):
            assert_equal(library.run(inputs), c.run(inputs))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(783000, 783012))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    case = graphs.case(seed)
    c = from_onnx(case.model, tmp_path)
    feeds = case.feeds[0]
    shapes = zip(c.executable.program.main.params, feeds.values(), strict=True)
    dims = {str(d): n for p, a in shapes for d, n in zip(p.type.dims, a.shape)}
    sizes = {name: dims[name] for name in c.hint if name in dims}
    try:
        written = explorer.export(c, tmp_path / "out", sizes=sizes, threads=3)
    except BadOption as problem:
        assert "needs Python while it runs" in problem.sentence
        return
    with Library(written).started() as library:
        for _ in range(5):
            assert_close(library.run(feeds), c.executable.run(feeds))  # of one unit


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ("small_moe", "tiny_bert", "small_beam_search"))
def test_there_is_no_race(name: str, tmp_path: Path) -> None:
    c = compiled(name)
    inputs, written = inputs_of(c), explorer.export(c, tmp_path / "out", threads=3)
    program = built(written, *RACES)
    assert_equal(run(program, written, inputs, more=("20",)), c.run(inputs))


def test_workers_start_and_stop_again_and_again(tmp_path: Path) -> None:
    c = compiled("tiny_while")
    inputs, library = inputs_of(c), Library(explorer.export(c, tmp_path / "out", threads=4))
    for _ in range(20):
        with library.started():
            assert_equal(library.run(inputs), c.run(inputs))


@pytest.mark.slow
def test_a_machine_of_weaker_memory_order_computes_the_same(tmp_path: Path) -> None:
    require_compiler("aarch64")
    here = compiled("small_moe")
    c = compiled("small_moe", "raspberry-pi-5")
    inputs, written = inputs_of(here), explorer.export(c, tmp_path / "out", threads=4)
    program = built(written, machine="aarch64")
    assert_close(run(program, written, inputs, "aarch64", ("20",)), here.run(inputs))


@pytest.mark.parametrize("threads", (1, 2, 5))
def test_fewer_threads_carry_all_parts(threads: int, tmp_path: Path) -> None:
    options = explorer.Options(rammer=RammerOptions(threads=12))
    c = explorer.compile(explorer.load("zoo:small_moe"), options=options)
    inputs, library = inputs_of(c), Library(explorer.export(c, tmp_path / "out", threads=12))
    with library.started(threads):
        for _ in range(10):
            assert_equal(library.run(inputs), c.run(inputs))


def test_a_fault_of_one_unit_ends_the_run(tmp_path: Path) -> None:
    options = explorer.Options(
        rammer=RammerOptions(threads=2), grinder=GrinderOptions(recursion="parallel")
    )
    c = explorer.compile(explorer.load("zoo:small_recursive_autoencoder"), options=options)
    inputs = inputs_of(c)
    endless = {**inputs, "left": np.zeros_like(inputs["left"])}
    with Library(explorer.export(c, tmp_path / "out", threads=2)).started() as library:
        for _ in range(3):
            fault, _ = library.result(endless)
            assert "calls deep" in library.fault(fault)
            assert_equal(library.run(inputs), c.run(inputs))


@pytest.mark.parametrize("threads", (0, 65, True, 2.0))
def test_a_wrong_number_of_threads_is_refused(threads: object, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="an export has 1 to 64 threads"):
        explorer.export(compiled("tiny_while"), tmp_path / "out", threads=threads)
