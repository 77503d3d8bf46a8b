"""A bad input is answered with one clear sentence that names it, and leaves all as it was."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer import cache, cli
from explorer.errors import (
    BadModelFile,
    BadOption,
    BoundError,
    DtypeError,
    IronworksError,
    MissingInput,
    NoSuchDevice,
    ShapeError,
    UnknownInput,
    UnsupportedOperator,
)
from tests.two_inputs import two_inputs

Shell = Callable[..., tuple[int, str, str]]


def boast(shape: tuple[int, ...]) -> bytes:
    """An array file that says it holds far more than it does."""
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with one good model and many bad ones."""
    here = tmp_path / "work"
    here.mkdir()
    good = two_inputs().SerializeToString()
    (here / "good.onnx").write_bytes(good)
    (here / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (here / "empty.onnx").write_bytes(b"")
    (here / "words.onnx").write_text("this is no model\n" * 9)
    (here / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(4096))
    (here / "folder.onnx").mkdir()
    (here / "domain.onnx").write_bytes(two_inputs("Swizzle", "com.acme").SerializeToString())
    (here / "operator.onnx").write_bytes(two_inputs("Swizzle").SerializeToString())
    (here / "words.npz").write_text("this is no archive")
    a, b = np.ones((2, 4), np.float32), np.ones(3, np.float32)
    np.savez(here / "good.npz", a=a, b=b)
    np.savez(here / "missing.npz", a=a)
    np.savez(here / "unknown.npz", a=a, b=b, c=b)
    np.savez(here / "dtype.npz", a=a.astype(np.float64), b=b)
    np.savez(here / "rank.npz", a=a[0], b=b)
    np.savez(here / "extent.npz", a=a, b=np.ones(5, np.float32))
    np.savez(here / "pickled.npz", a=np.array([{}, print], object), b=b)
    np.savez_compressed(here / "damaged.npz", a=a, b=b)
    damaged = bytearray((here / "damaged.npz").read_bytes())
    damaged[60:90] = bytes(30)
    (here / "damaged.npz").write_bytes(damaged)
    with zipfile.ZipFile(here / "boast.npz", "w") as archive:
        archive.writestr("a.npy", boast((1 << 40, 4)))
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def shell(folder: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """One command: exit code, stdout and stderr. Whatever it does, no file may appear or change."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        out, err = capsys.readouterr()
        return code, out, err

    assert own_cache  # other tests fill theirs meanwhile
    before = _content(folder)
    yield run
    assert _content(folder) == before, "a bad input left something behind"


def _content(folder: Path) -> dict[str, bytes | int]:
    """Every file of the folder that one works in, and how much the cache holds."""
    files = {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
    return {**files, "cache": cache.stats().entries}


FILES = [
    ("truncated.onnx", BadModelFile),
    ("empty.onnx", BadModelFile),
    ("words.onnx", BadModelFile),
    ("noise.onnx", BadModelFile),
    ("folder.onnx", BadModelFile),
    ("nowhere.onnx", BadModelFile),
    ("domain.onnx", UnsupportedOperator),
    ("operator.onnx", UnsupportedOperator),
]


@pytest.mark.parametrize(("name", "kind"), FILES)
@pytest.mark.usefixtures("folder")
def test_a_bad_file_is_named_in_one_sentence(name: str, kind: type[IronworksError]) -> None:
    with pytest.raises(kind) as raised:
        explorer.compile(name)
    named = name if kind is BadModelFile else "Swizzle"
    assert named in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("command", ["compile", "check", "time", "race"])
@pytest.mark.parametrize(("name", "kind"), FILES)
def test_a_bad_file_ends_every_command(
    shell: Shell, command: str, name: str, kind: type[IronworksError]
) -> None:
    code, out, err = shell(command, name, "--json")
    assert_refused(code, out, err, kind)


def test_an_unknown_domain_is_said_with_its_node(shell: Shell) -> None:
    _, _, err = shell("compile", "domain.onnx")
    assert "com.acme" in err and "the_product" in err


BAD_FLAGS = [
    (["--set", "roller.depth=3"], BadOption, "roller.depth"),
    (["--set", "roller.top_k=many"], BadOption, "roller.top_k"),
    (["--set", "anvil.weight=3"], BadOption, "anvil"),
    (["--set", "rammer.policy=fastest"], BadOption, "fastest"),
    (["--bind", "batch"], BadOption, "batch"),
    (["--bind", "batch=two"], BadOption, "two"),
    (["--bind", "depth=2"], BadOption, "depth"),
    (["--bounds", "batch=4:1"], BadOption, "batch"),
    (["--bounds", "depth=1:4"], BoundError, "depth"),
    (["--bounds", "batch=1:4", "--bind", "batch=9"], BoundError, "batch"),
    (["--target", "abacus"], NoSuchDevice, "abacus"),
    (["--threads", "0"], BadOption, "--threads"),
    (["--threads", "many"], BadOption, "many"),
    (["--colour", "red"], BadOption, "--colour"),
]


@pytest.mark.parametrize(("flags", "kind", "said"), BAD_FLAGS)
@pytest.mark.parametrize("command", ["compile", "time"])
def test_a_bad_flag_is_named(
    shell: Shell, command: str, flags: list[str], kind: type[IronworksError], said: str
) -> None:
    code, out, err = shell(command, "good.onnx", *flags, "--json")
    assert_refused(code, out, err, kind)
    assert said in err


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "soon"])
@pytest.mark.parametrize("command", ["time", "race"])
def test_a_time_to_measure_is_a_time(shell: Shell, command: str, value: str) -> None:
    code, out, err = shell(command, "good.onnx", "--seconds", value, "--json")
    assert_refused(code, out, err, BadOption)
    assert value in err


def test_an_unknown_stage_is_answered_with_the_known_ones(shell: Shell) -> None:
    code, _, err = shell("compile", "good.onnx", "--until", "polished")
    assert code == 2 and "polished" in err and "rolled" in err


def test_an_unknown_zoo_name_is_answered_with_the_nearest(shell: Shell) -> None:
    code, out, err = shell("compile", "zoo:squeesenet", "--json")
    assert_refused(code, out, err, BadOption)
    assert "did you mean 'squeezenet'" in err


def test_an_unknown_peer_is_named(shell: Shell) -> None:
    code, out, err = shell("race", "good.onnx", "--against", "abacus", "--json")
    assert_refused(code, out, err, BadOption)
    assert "abacus" in err


INPUTS = [
    ("nowhere.npz", BadOption, "nowhere.npz"),
    ("words.npz", BadOption, "words.npz"),
    ("pickled.npz", BadOption, "'a'"),
    ("damaged.npz", BadOption, "damaged.npz"),
    ("boast.npz", BadOption, "'a'"),
    ("missing.npz", MissingInput, "'b'"),
    ("unknown.npz", UnknownInput, "'c'"),
    ("dtype.npz", DtypeError, "'a'"),
    ("rank.npz", ShapeError, "'a'"),
    ("extent.npz", ShapeError, "'b'"),
]


@pytest.mark.parametrize(("name", "kind", "said"), INPUTS)
def test_a_bad_file_of_inputs_is_named(
    shell: Shell, name: str, kind: type[IronworksError], said: str
) -> None:
    code, out, err = shell("time", "good.onnx", "--inputs", name, "--seconds", "0.01", "--json")
    assert_refused(code, out, err, kind)
    assert said in err


def test_inputs_beyond_a_bound_are_refused(shell: Shell) -> None:
    code, out, err = shell(
        "time", "good.onnx", "--bounds", "batch=4:8", "--inputs", "good.npz", "--json"
    )
    assert_refused(code, out, err, BoundError)
    assert "batch" in err


def test_a_binding_that_the_inputs_contradict_is_refused(shell: Shell) -> None:
    code, out, err = shell(
        "time", "good.onnx", "--bind", "batch=3", "--inputs", "good.npz", "--json"
    )
    assert_refused(code, out, err, BoundError)
    assert "batch" in err


def assert_refused(code: int, out: str, err: str, kind: type[IronworksError]) -> None:
    """Exit code 2, one line on stderr, and an object on stdout that says the same."""
    assert code == 2, err
    assert err.count("\n") == 1 and "Traceback" not in err
    problem = json.loads(out)
    assert problem["error"] == kind.__name__, err
    assert problem["sentence"] in err


# From Python.

GOOD = {"a": np.ones((2, 4), np.float32), "b": np.ones(3, np.float32)}
RUNS = [
    ({"a": GOOD["a"]}, MissingInput, "'b'"),
    ({**GOOD, "c": GOOD["b"]}, UnknownInput, "'c'"),
    ({**GOOD, "a": GOOD["a"].astype(np.float64)}, DtypeError, "'a'"),
    ({**GOOD, "a": GOOD["a"][0]}, ShapeError, "'a'"),
    ({**GOOD, "b": np.ones(5, np.float32)}, ShapeError, "'b'"),
]


@pytest.mark.usefixtures("folder")
def test_whatever_python_is_told_wrongly_is_a_named_error() -> None:
    c = explorer.compile("good.onnx", until="rolled")
    for wrong, kind, said in (
        (lambda: explorer.compile("good.onnx", target="abacus"), NoSuchDevice, "abacus"),
        (lambda: explorer.compile("good.onnx", until="polished"), BadOption, "polished"),
        (lambda: explorer.load("good.onnx", bounds={"depth": (1, 4)}), BoundError, "depth"),
        (lambda: explorer.device("abacus"), NoSuchDevice, "abacus"),
        (lambda: c.snapshot("polisher"), BadOption, "polisher"),
        (lambda: c.run(GOOD), BadOption, "ROLLED"),
        (lambda: explorer.race("good.onnx", GOOD, against=("abacus",)), BadOption, "abacus"),
        (lambda: explorer.race("good.onnx", GOOD, seconds=float("nan")), BadOption, "nan"),
    ):
        with pytest.raises(kind, match=said):
            wrong()


@pytest.mark.usefixtures("folder")
def test_a_refused_run_leaves_the_compilation_as_it_was() -> None:
    c = explorer.compile("good.onnx")
    expected = c.run(GOOD)["y"]
    for inputs, kind, said in RUNS:
        with pytest.raises(kind, match=said):
            c.run(inputs)
        np.testing.assert_array_equal(c.run(GOOD)["y"], expected)


@pytest.mark.usefixtures("folder")
def test_a_run_beyond_a_bound_is_refused() -> None:
    c = explorer.compile(explorer.load("good.onnx", bounds={"batch": (1, 4)}))
    with pytest.raises(BoundError, match="batch"):
        c.run({**GOOD, "a": np.ones((9, 4), np.float32)})
    assert c.run(GOOD)["y"].shape == (2, 3)
