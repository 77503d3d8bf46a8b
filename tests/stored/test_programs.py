"""A program that an earlier process made is opened: no pass runs, no kernel is compiled, and the
answers have the same bits. Whatever happened to its entry, answers are right.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import cache
from explorer import np as enp
from explorer.errors import Cancelled
from explorer.frontends import zoo
from explorer.ir.program import Program
from explorer.ir.text.program_text import print_program
from explorer.passes.fingerprint import packages_key
from explorer.rammer import Options as RammerOptions
from explorer.roller import Options as RollerOptions
from explorer.stored import program_key
from tests.fresh_process import bits, elsewhere, ended, forgotten, process, told

MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
CONVOLUTIONS = str(Path(__file__).parents[1] / "data" / "tiny_resnet18.onnx")


def traced(dtype: str = "float32", width: int = 24, axis: int = 1) -> explorer.Model:
    """A product and a softmax over any number of rows."""
    weights = np.random.default_rng(5).standard_normal((width, 16)).astype(dtype)

    @explorer.trace
    def model(x):  # type: ignore[no-untyped-def]
        y = enp.exp(enp.tanh(x @ weights))
        return y / enp.sum(y, axis=axis, keepdims=True)

    return explorer.load(model(x=explorer.tensor(dtype, "batch", width)))


def folded() -> explorer.Model:
    """A product by a constant that passes make of another."""
    weights = np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)

    @explorer.trace
    def model(x):  # type: ignore[no-untyped-def]
        return enp.tanh(x @ enp.tanh(enp.asarray(weights)))

    return explorer.load(model(x=explorer.tensor("float32", "batch", 64)))


@pytest.fixture(autouse=True)
def nothing_is_remembered(own_cache: Path) -> None:
    """Nor is anything on disk."""
    forgotten()


def entries() -> list[Path]:
    return sorted(cache.disk().folder.glob("*.entry"))


def entry_of(model: explorer.Model) -> Path:
    """The file that a model's program lies in."""
    from explorer.compiler.pipeline import _request, device_of

    found = _request(model, device_of("cpu"), explorer.Options().entered).program_key
    assert found is not None
    return cache.disk().folder / f"{found.key}.entry"


def opens(model: Any, **words: Any) -> bool:
    """Whether a process that remembers nothing finds the compilation."""
    forgotten()
    with explorer.counters.delta() as did:
        explorer.compile(model, **words)
    assert (did.program_hits, did.program_misses) in ((1, 0), (0, 1))
    assert (did.pass_runs == 0) == bool(did.program_hits)
    return bool(did.program_hits)


# Another process.


@pytest.mark.slow
def test_later_processes_run_no_pass_and_compile_no_kernel_whatever_their_hashes() -> None:
    first = elsewhere(MODEL, PYTHONHASHSEED="0")
    assert first["passes"] > 20 and first["kernels"] > 0 and first["misses"] == 1
    wanted = {"passes": 0, "kernels": 0, "hits": 1, "misses": 0, "bits": first["bits"]}
    for seed in ("0", "1", "random"):
        assert elsewhere(MODEL, PYTHONHASHSEED=seed) == wanted


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_processes_at_once_are_all_right_and_leave_one_entry(count: int) -> None:
    team = [process(MODEL) for _ in range(count)]
    found = [ended(child) for child in team]
    assert len({one["bits"] for one in found}) == 1
    assert cache.verify().removed == 0
    assert told(MODEL) == {**found[0], "passes": 0, "kernels": 0, "hits": 1, "misses": 0}


def test_a_process_that_ran_the_passes_does_not_look() -> None:
    explorer.compile(MODEL)
    with explorer.counters.delta() as did:
        explorer.compile(MODEL)
    assert (did.program_hits, did.program_misses, did.pass_runs) == (0, 0, 0)


# What the key tells apart.


def test_the_same_again_is_found_and_what_differs_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not opens(traced())
    assert opens(traced())
    assert not opens(traced(dtype="float64"))
    assert not opens(traced(width=25))
    assert not opens(traced(axis=0))
    assert not opens(traced(), target="cpu-avx2")
    assert not opens(traced(), donate=("x",))
    assert not opens(traced(), options=explorer.Options(rammer=RammerOptions(threads=1)))
    assert not opens(traced(), options=explorer.Options(roller=RollerOptions(top_k=3)))
    assert opens(traced(), donate=("x",))
    monkeypatch.setattr(program_key, "compiler_key", lambda: "of other code")
    assert not opens(traced())


def test_where_a_function_stands_and_what_it_calls_its_values_is_not_in_the_key(
    tmp_path: Path,
) -> None:
    def written(lines_before: int, value: str) -> explorer.Model:
        name = f"written_{lines_before}_{value}"
        path = tmp_path / f"{name}.py"
        path.write_text(
            "\n" * lines_before
            + "from explorer import np as enp\n\n"
            + f"def model(x):\n    {value} = enp.tanh(x)\n    return enp.exp({value}) * 2\n"
        )
        spec = spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return explorer.trace(module.model)(explorer.tensor("float32", "n", 8))

    assert not opens(written(0, "y"))
    for model in (written(7, "y"), written(7, "other")):
        assert opens(model)
        found = explorer.compile(model)
        named = {s.name for s in model.program.sources}
        assert {o for _, b in found.program.bindings() for o in b.origin} == named
        assert all(":8 " in name or ":11 " in name or ":12 " in name for name in named), named
        x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
        (y,) = found.run(x).values()
        np.testing.assert_allclose(y, np.exp(np.tanh(x)) * 2, rtol=1e-6)


def test_which_operand_is_which_is_in_the_key() -> None:
    """Once one took the other's entry elsewhere (pytorch/xla, issue 8353)."""
    kinds = [explorer.tensor("float32", 5)] * 3
    one = explorer.trace(lambda a, b, c: (a * b) + c)(*kinds)
    two = explorer.trace(lambda a, b, c: (a * c) + b)(*kinds)
    assert not opens(one) and not opens(two)
    assert opens(one) and opens(two)
    a, b, c = (np.full(5, n, np.float32) for n in (2, 3, 5))
    for model, right in ((one, 11), (two, 13)):
        (found,) = explorer.compile(model).run(a, b, c).values()
        assert (found == right).all()


def test_weights_are_told_apart_by_what_they_hold() -> None:
    def model(seed: int) -> explorer.Model:
        weights = np.random.default_rng(seed).standard_normal((64, 512)).astype(np.float32)

        @explorer.trace
        def product(x):  # type: ignore[no-untyped-def]
            return x @ weights

        return explorer.load(product(x=explorer.tensor("float32", 3, 64)))

    assert [opens(model(seed)) for seed in (1, 2, 1, 2)] == [False, False, True, True]


def test_what_is_checked_measured_or_half_compiled_is_not_kept() -> None:
    model = traced()
    with explorer.counters.delta() as did:
        explorer.compile(model, check=True)
        explorer.compile(model, until="rolled")
        explorer.compile(model, options=explorer.Options(roller=RollerOptions(measure=2)))
        explorer.compile(model, target="a100", until="welded")
    assert (did.program_hits, did.program_misses) == (0, 0)
    assert not opens(model)


def test_a_data_sheet_has_a_program_and_no_code() -> None:
    assert not opens(MODEL, target="a100")
    assert opens(MODEL, target="a100")


def twice(program: Program) -> Program:
    """A pass that does nothing."""
    return replace(program)


def untold(program: Program) -> Program:
    """A pass of which nobody can tell what it will do."""
    return eval("program")  # type: ignore[no-any-return]


def test_a_pass_of_ones_own_is_in_the_key_and_an_untold_one_keeps_all_from_disk() -> None:
    def options(run: Callable[[Program], Program]) -> explorer.Options:
        return explorer.Options(passes=(("clean up", run),))

    model = traced()
    assert not opens(model)
    assert not opens(model, options=options(twice))
    assert opens(model, options=options(twice))
    for _ in range(2):
        forgotten()
        with explorer.counters.delta() as did:
            explorer.compile(model, options=options(untold))
        assert did.program_hits == did.program_misses == 0 and did.pass_runs


# What is opened is what was kept.


def same(found: explorer.Compilation, made: explorer.Compilation) -> None:
    """Everything that can be asked of a compilation is answered alike."""
    assert found.program == made.program
    assert print_program(found.program) == print_program(made.program)
    assert [k.code.key for k in found.kernels] == [k.code.key for k in made.kernels]
    assert [k.source for k in found.kernels] == [k.source for k in made.kernels]
    for name, code in made.codes.items():
        assert code.tile_program == found.codes[name].tile_program
        assert code.arguments == found.codes[name].arguments
    assert found.planned_wall() == made.planned_wall() and found.memory() == made.memory()
    assert [(s.name, s.stage) for s in found.steps] == [(s.name, s.stage) for s in made.steps]
    assert bits(found) == bits(made)


@pytest.mark.parametrize("path", [MODEL, CONVOLUTIONS])
def test_steps_are_made_when_somebody_looks_and_are_those_of_a_fresh_compilation(path: str) -> None:
    made = explorer.compile(path)
    forgotten()
    with explorer.counters.delta() as did:
        found = explorer.compile(path)
        same(found, made)
        assert found.seconds == 0.0
    assert did.pass_runs == 0
    with explorer.counters.delta() as did:
        steps = found.snapshots
    assert did.pass_runs == len(steps) - 1
    for one, other in zip(steps, made.snapshots, strict=True):
        assert (one.name, one.stage) == (other.name, other.stage)
        assert one.before == other.before and one.after == other.after
    assert steps[-1].after == found.program
    assert found.snapshot("roller").decisions == made.snapshot("roller").decisions


def test_what_is_opened_is_compiled_with_other_options_like_any_other() -> None:
    made = explorer.compile(MODEL)
    forgotten()
    found = explorer.compile(MODEL)
    options = replace(found.options.rammer, threads=1, policy="gang")
    same(found.with_options(rammer=options), made.with_options(rammer=options))
    kernel = made.kernels[0].name
    assert str(found.explain(kernel)) == str(made.explain(kernel))


def test_symbols_are_the_same_ones() -> None:
    made = explorer.compile(traced())
    forgotten()
    found = explorer.compile(traced())
    same(found, made)
    for batch in (1, 2, 33):
        inputs = made.random_inputs({"batch": batch})
        for name, value in made.run(inputs).items():
            np.testing.assert_array_equal(found.run(inputs)[name], value)


def test_a_training_step_takes_over_what_is_donated() -> None:
    def step(w: Any, m: Any, x: Any, y: Any) -> Any:
        loss, gradient = explorer.value_and_grad(lambda w: enp.mean((x @ w - y) ** 2))(w)
        moved = 0.9 * m + gradient
        return w - 0.1 * moved, moved, loss

    def model() -> explorer.Model:
        shapes = {"w": (32, 4), "m": (32, 4), "x": (8, 32), "y": (8, 4)}
        given = {name: explorer.tensor("float32", *shape) for name, shape in shapes.items()}
        return explorer.load(explorer.trace(step), inputs=given)

    made = explorer.compile(model(), donate=("w", "m"))
    forgotten()
    with explorer.counters.delta() as did:
        found = explorer.compile(model(), donate=("w", "m"))
    assert did.program_hits == 1 and did.pass_runs == 0
    assert found.donated == made.donated and any(found.donated.values())
    answers, inputs = [], made.random_inputs()
    for c in (found, made):
        given = {name: value.copy() for name, value in inputs.items()}
        out = c.run(given)
        for name, output in c.donated.items():
            assert not output or out[output] is given[name]
        answers.append(out)
    for name, value in answers[0].items():
        np.testing.assert_array_equal(value, answers[1][name])


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "zoo:small_llama",
        "zoo:moe",
        pytest.param("zoo:small_beam_search", marks=pytest.mark.exhaustive),
    ],
)
def test_control_flow_is_kept(name: str) -> None:
    made = explorer.compile(zoo.load(name))
    forgotten()
    with explorer.counters.delta() as did:
        found = explorer.compile(zoo.load(name))
    assert did.program_hits == 1 and did.pass_runs == did.kernel_compiles == 0
    assert found.program == made.program
    assert found.program.decisions == made.program.decisions
    assert bits(found) == bits(made)


def test_every_system_can_be_kept() -> None:
    """Decisions of systems that are off by default, too."""
    model = explorer.load(CONVOLUTIONS)
    options = explorer.Options(
        relax=replace(explorer.Options().relax, fuse=True, lift=True, dispatch=("blas",))
    )
    made = explorer.compile(model, options=options)
    assert opens(model, options=options)
    assert explorer.compile(model, options=options).program == made.program


def test_who_waits_is_told_and_may_stop() -> None:
    explorer.compile(MODEL)
    forgotten()
    said: list[tuple[str, int, int]] = []
    explorer.compile(MODEL, progress=lambda *words: said.append(words))
    assert len(said) == 1 and said[0][1] == said[0][2] > 20
    forgotten()
    with pytest.raises(Cancelled):
        explorer.compile(MODEL, cancelled=lambda: True)


# Damage.


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def foreign(path: Path) -> None:
    assert cache.put(path.name.removesuffix(".entry"), b"of somebody else")


def other_values(path: Path) -> None:
    assert cache.put(path.name.removesuffix(".entry"), b'[]\n{"format": "values-0"}')


def half(path: Path) -> None:
    """Half of the text, under a right checksum."""
    key = path.name.removesuffix(".entry")
    data = cache.get(key)
    assert data is not None and cache.put(key, data[: len(data) // 2])


DAMAGES = [truncated, emptied, flipped, foreign, other_values, half, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_entry_is_compiled_again_and_kept_anew(damage: Callable[[Path], None]) -> None:
    model = traced()
    right = bits(explorer.compile(model))
    damage(entry_of(model))
    forgotten()
    with explorer.counters.delta() as did:
        assert bits(explorer.compile(model)) == right
    assert did.program_misses == 1 and did.pass_runs
    assert opens(model) and cache.verify().removed == 0


@pytest.mark.parametrize("damage", [truncated, flipped, Path.unlink], ids=lambda d: d.__name__)
def test_where_everything_is_damaged_answers_are_right(damage: Callable[[Path], None]) -> None:
    right = bits(explorer.compile(CONVOLUTIONS))
    for path in entries():
        damage(path)
    forgotten()
    assert bits(explorer.compile(CONVOLUTIONS)) == right
    assert opens(CONVOLUTIONS)


def constant_of(c: explorer.Compilation) -> Path:
    """The entry of the constant that passes made."""
    (constant,) = c.program.constants.values()
    key = cache.content_key("constant", constant.digest)
    return cache.disk().folder / f"{key}.entry"


@pytest.mark.parametrize("damage", [truncated, flipped], ids=lambda d: d.__name__)
def test_a_damaged_constant_is_made_again_by_the_passes(damage: Callable[[Path], None]) -> None:
    made = explorer.compile(folded())
    damage(constant_of(made))
    forgotten()
    with explorer.counters.delta() as did:
        found = explorer.compile(folded())
        assert did.program_hits == 1 and not did.pass_runs
        assert bits(found) == bits(made)
    assert did.pass_runs
    assert not opens(folded())
    assert opens(folded())


def test_where_a_constant_is_gone_there_is_no_entry() -> None:
    constant_of(explorer.compile(folded())).unlink()
    assert not opens(folded())
    assert opens(folded())


def test_constants_are_read_when_a_run_needs_them() -> None:
    made = explorer.compile(folded())
    forgotten()
    found = explorer.compile(folded())
    (one,), (other,) = found.program.constants.values(), made.program.constants.values()
    assert one == other and one.type == other.type and "array" not in vars(one)
    np.testing.assert_array_equal(one.array, other.array)
    assert not one.array.flags.writeable


def test_where_nothing_can_be_kept_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.disk(), "limit_bytes", 0)
    right = bits(explorer.compile(folded()))
    forgotten()
    assert bits(explorer.compile(folded())) == right and not entries()


# Why not.


def test_the_part_that_differs_is_told() -> None:
    from explorer.compiler.pipeline import why_not_cached

    assert why_not_cached(MODEL).differs == () and not why_not_cached(MODEL).is_cached
    explorer.compile(MODEL)
    explorer.compile(MODEL, options=explorer.Options(rammer=RammerOptions(threads=2)))
    assert why_not_cached(MODEL).is_cached
    said = why_not_cached(MODEL, options=explorer.Options(rammer=RammerOptions(threads=3)))
    assert [(d.part, d.now) for d in said.differs] == [("rammer.threads", "3")]
    said = why_not_cached(MODEL, target="a100")
    assert [d.part for d in said.differs] == ["target"]
    untold_options = explorer.Options(passes=(("clean up", untold),))
    assert why_not_cached(MODEL, options=untold_options).is_unstorable


def test_the_command_line_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    from explorer.cli import main

    assert main(["cache", "why", MODEL]) == 1
    assert "no compilation of a model named" in capsys.readouterr().out
    explorer.compile(MODEL)
    assert main(["cache", "why", MODEL]) == 0
    assert main(["cache", "why", MODEL, "--set", "rammer.threads=3"]) == 1
    assert "rammer.threads: it was 0, and is 3" in capsys.readouterr().out


def test_a_package_that_comes_or_changes_its_version_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = [packages_key()]
    for version in ("1.0", "1.1"):
        about = tmp_path / f"acme-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n")
        found.append(packages_key())
        assert packages_key() == found[-1]
        (about / "METADATA").unlink()
        about.rmdir()
    found.append(packages_key())
    assert found[3] == found[0] and len({*found}) == 3


def test_a_package_that_is_installed_again_from_a_folder_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    about = tmp_path / "acme-1.0.dist-info"
    found = []
    for digest in ("one", "two"):
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (about / "RECORD").write_text(f"acme.py,sha256={digest},9\n")
        (about / "direct_url.json").write_text('{"url": "file:///acme", "dir_info": {}}')
        found.append(packages_key())
        shutil.rmtree(about)
    assert found[0] != found[1]
