"""The shell: every command from its words to its exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from explorer import cli
from explorer.cli import arguments, settings, text
from explorer.errors import BadOption, CheckFailed
from explorer.options import Options

Shell = Callable[..., tuple[int, str, str]]
OURS = sorted(cli.OURS)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Exit code, stdout and stderr of one command."""

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main(words)
        except SystemExit as left:  # argparse's --help
            code = int(left.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_help_names_every_command(shell: Shell) -> None:
    code, out, err = shell("--help")
    assert code == 0 and err == ""
    for name in cli.COMMANDS:
        assert f"  {name} " in out


@pytest.mark.parametrize("name", OURS)
def test_every_command_explains_its_flags(shell: Shell, name: str) -> None:
    code, out, _ = shell(name, "--help")
    assert code == 0
    assert out.startswith(f"usage: ironworks {name}") and "--json" in out


def test_no_command_is_bad_usage(shell: Shell) -> None:
    code, out, err = shell()
    assert code == 2 and out == "" and "usage: ironworks" in err


def test_a_misspelt_command_is_named_with_what_was_meant(shell: Shell) -> None:
    code, _, err = shell("rase")
    assert code == 2 and err == "ironworks: there is no command 'rase'; did you mean 'race'?\n"


def test_a_bad_flag_is_one_line(shell: Shell) -> None:
    code, _, err = shell("zoo", "--colour")
    assert code == 2 and err.count("\n") == 1 and "--colour" in err


def test_an_error_with_json_is_an_object_and_a_line(shell: Shell) -> None:
    code, out, err = shell("compile", "nothing.onnx", "--json", "--bind", "batch")
    assert code == 2 and err.count("\n") == 1
    assert json.loads(out)["error"] == "BadOption"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (BadOption("no"), 2),
        (CheckFailed("no"), 1),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 2),
    ],
)
def test_whatever_goes_wrong_is_one_line_and_never_a_traceback(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def broken(given: list[str]) -> int:
        raise raised

    monkeypatch.setattr("explorer.cli.zoo.main", broken)
    found, out, err = shell("zoo")
    assert found == code and out == "" and err.count("\n") == 1


def test_a_plug_in_command_gets_what_follows_its_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        name = "sing"

        def load(self) -> Callable[[list[str]], int]:
            return lambda given: len(given)

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **which: (Entry(),))
    assert shell("sing", "a", "b")[0] == 2
    assert "sing" in shell("--help")[1]


@pytest.mark.parametrize("words", [["--help"], ["zoo"], ["cache"], ["devices"]])
def test_what_needs_no_compiler_does_not_load_one(words: list[str]) -> None:
    program = (
        f"import sys; from explorer.cli import main; main({words!r}); "
        "heavy = {'numba', 'torch', 'onnx', 'onnxruntime', 'plotly'} & sys.modules.keys(); "
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The zoo and the cache.


def test_the_zoo_lists_nine_models_with_their_weights(shell: Shell) -> None:
    code, out, _ = shell("zoo", "--json")
    models = json.loads(out)["models"]
    assert code == 0 and len(models) == 9
    assert {"name": "zoo:squeezenet", "weights": 1_235_496}.items() <= next(
        m for m in models if m["name"] == "zoo:squeezenet"
    ).items()


@pytest.mark.usefixtures("own_cache")
def test_the_cache_says_what_it_holds_and_is_emptied(shell: Shell) -> None:
    from explorer import cache

    cache.put(cache.content_key("a"), b"12345")
    assert json.loads(shell("cache", "--json")[1])["entries"] == 1
    assert shell("cache", "verify")[:2] == (0, "1 intact\n")
    assert json.loads(shell("cache", "clear", "--json")[1])["removed"] == 1
    assert shell("cache")[1].startswith("0 entries")


@pytest.mark.usefixtures("own_cache")
def test_a_damaged_cache_entry_makes_the_answer_no(shell: Shell) -> None:
    from explorer import cache

    cache.put(cache.content_key("a"), b"12345")
    (file,) = (p for p in cache.disk().folder.rglob("*") if p.is_file() and p.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    code, out, _ = shell("cache", "verify")
    assert code == 1 and "1 damaged and removed" in out


# Flags.


def test_bindings_and_bounds_are_read_from_one_flag_or_several() -> None:
    assert arguments.bind(["batch=1,seq=128", "n=3"]) == {"batch": 1, "seq": 128, "n": 3}
    assert arguments.bounds(["batch=1:64"]) == {"batch": (1, 64)}


@pytest.mark.parametrize(
    "words", ["batch", "batch=", "=1", "batch=x", "batch=-1", "a=1,a=2", "a=1.5", "a=1,,b=2"]
)
def test_a_malformed_binding_is_refused(words: str) -> None:
    with pytest.raises(BadOption, match="--bind"):
        arguments.bind([words])


@pytest.mark.parametrize("words", ["batch=1", "batch=4:2", "batch=a:b", "batch=1:2:3"])
def test_a_malformed_bound_is_refused(words: str) -> None:
    with pytest.raises(BadOption, match="--bounds"):
        arguments.bounds([words])


@pytest.mark.parametrize("words", ["nan", "inf", "-1", "0", "soon", "1e99"])
def test_seconds_are_finite_and_above_zero(words: str) -> None:
    with pytest.raises(BadOption, match="--seconds"):
        arguments.seconds(words)


@pytest.mark.parametrize(
    ("words", "group", "field", "value"),
    [
        ("roller.top_k=3", "roller", "top_k", 3),
        ("welder.enabled=off", "welder", "enabled", False),
        ("welder.cuts=a, b", "welder", "cuts", ("a", "b")),
        ("rammer.policy=op-by-op", "rammer", "policy", "op-by-op"),
    ],
)
def test_a_setting_takes_the_type_of_its_field(
    words: str, group: str, field: str, value: object
) -> None:
    assert getattr(getattr(settings.apply(Options(), [words]), group), field) == value


def test_a_policy_is_set_by_its_name() -> None:
    assert settings.apply(Options(), ["welder.policy=greedy"]) == Options()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("roller.topk=3", "did you mean 'roller.top_k'"),
        ("rolle.top_k=3", "did you mean 'roller'"),
        ("roller.top_k=many", "a whole number, not 'many'"),
        ("roller.top_k", "group.field=value"),
        ("welder.enabled=perhaps", "true or false"),
        ("roller.pinned=x", "no plain value"),
        ("welder.policy=weigh", "there are greedy"),
        ("rammer.policy=fastest", "no policy 'fastest'"),
        ("rammer.threads=-1", "0 or more"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(words: str, said: str) -> None:
    with pytest.raises(BadOption, match=said.replace(".", r"\.")):
        settings.apply(Options(), [words])


# Words.


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0.87, "870 ns"),
        (12.34, "12.3 µs"),
        (999.96, "1000 µs"),
        (4560, "4.56 ms"),
        (1.2e6, "1.20 s"),
    ],
)
def test_a_time_reads_in_the_unit_that_suits_it(us: float, words: str) -> None:
    assert text.duration(us) == words


@pytest.mark.parametrize(
    ("count", "words"), [(512, "512 B"), (1536, "1.50 KiB"), (5 << 30, "5.00 GiB")]
)
def test_bytes_read_in_binary_units(count: int, words: str) -> None:
    assert text.size(count) == words


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    rows: Any = [("a", "1"), ("long", "200")]
    assert text.table(("name", ">n"), rows).splitlines() == [
        "  name    n",
        "  ────  ───",
        "  a       1",
        "  long  200",
    ]
