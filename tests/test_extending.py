"""What another distribution or a file of Python brings enters: passes, policies, and what is bad
about them is one sentence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from explorer import cli, extend
from explorer.errors import BadOption
from explorer.ops import user_operators
from explorer.passes import policy_call, registry
from tests.two_inputs import two_inputs

PLUGIN = Path(__file__).parent / "plugin"
MODEL = str(Path(__file__).parent / "data" / "tiny_skip.onnx")
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plug-in is installed, and gone afterwards with what it registered."""
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())
    monkeypatch.syspath_prepend(str(PLUGIN))
    yield
    for name in [n for n in sys.modules if n.startswith("ironworks_")]:
        del sys.modules[name]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main(words)
        except SystemExit as left:  # argparse's --help
            code = int(left.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def steps(out: str) -> list[str]:
    return [step["name"] for step in json.loads(out)["steps"]]


def test_a_pass_of_a_plug_in_has_its_step_its_options_and_its_line_of_help(shell: Shell) -> None:
    flags = ("compile", MODEL, "--json", "--until", "legalized", "--check", "--plugin", "acme")
    code, out, _ = shell(*flags, "--set", "acme rename.times=3")
    at = steps(out).index("legalise to kernels") + 1
    assert code == 0 and steps(out)[at] == "acme rename"
    assert json.loads(out)["steps"][at]["checked"] is True
    code, out, _ = shell("compile", "--plugin", "acme", "--help")
    assert code == 0 and "acme rename, after 'legalise to kernels': Give the program" in out
    assert "--set acme rename.times=1" in out and "acme-ram" in out


def test_a_plug_in_that_nobody_asked_for_changes_nothing(shell: Shell) -> None:
    code, out, _ = shell("compile", MODEL, "--json", "--until", "legalized")
    assert code == 0 and "acme rename" not in steps(out)
    assert "ironworks_acme" not in sys.modules


@pytest.mark.parametrize(
    "policies",
    [
        ("rammer.policy=acme-ram", "welder.policy=acme-weld", "roller.policy=acme-roll"),
        tuple(
            f"{system}.policy={PLUGIN / 'ironworks_acme.py'}:{name}"
            for system, name in (
                ("rammer", "one_after_another"),
                ("welder", "alone"),
                ("roller", "every_tile"),
            )
        ),
    ],
    ids=["by entry point", "by file"],
)
def test_a_policy_is_set_by_the_name_of_a_plug_in_or_of_a_file(
    shell: Shell, policies: tuple[str, ...]
) -> None:
    flags = [word for policy in policies for word in ("--set", policy)]
    code, out, err = shell("compile", MODEL, "--json", *flags)
    assert (code, err) == (0, "")
    found = json.loads(out)
    # Nothing is joined: the sum, the test, both sides of the branch in three, and the selection.
    assert found["kernels"]["calls"] == 6 and found["bricks"] > 0
    assert "acme rename" not in steps(out)


@pytest.mark.parametrize("target", ["cpu", "v100"])
def test_explain_names_the_policy_of_tilings(shell: Shell, target: str) -> None:
    by_file = f"roller.policy={PLUGIN / 'ironworks_acme.py'}:every_tile"
    for flags, policy in (((), "construct"), (("--set", by_file), "every_tile")):
        words = ("explain", MODEL, "--stage", "roller", "--target", target, *flags)
        code, out, err = shell(*words)
        assert (code, err) == (0, "") and out.startswith(f"policy {policy}\n")
        assert json.loads(shell(*words, "--json")[1])["policy"] == policy


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--plugin", "acme-broken"), "has no attribute 'gone'"),
        (("--plugin", "acm"), "no plug-in is named 'acm'"),
        (("--plugin", "./nothere.py"), "there is no file 'nothere.py'"),
        (("--plugin", "."), "no plug-in is named '.'"),
        (("--set", "rammer.policy=acme"), "takes a policy, and the plug-in 'acme' is a module"),
        (("--set", "rammer.policy=acme-broken"), "failed to load"),
        (("--set", "acme rename.times=2"), "no group of options 'acme rename'"),
        (("--set", "acme rename.times=2"), "(try: --plugin FILE, if the file registers a pass"),
        (("--set", "rammer.policy=mine"), "or a name that a file of --plugin registers"),
        (("--plugin", "acme", "--set", "acme rename.time=2"), "did you mean 'acme rename.times'"),
        (("--plugin", "acme", "--set", "acme rename.times=x"), "a whole number, not 'x'"),
    ],
)
def test_what_cannot_be_loaded_or_set_ends_with_2(
    shell: Shell, words: tuple[str, ...], said: str
) -> None:
    code, out, err = shell("compile", MODEL, *words)
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1


OPERATOR = """
import numpy as np
import explorer
from explorer.ops.elementwise import call, unary
explorer.operator(
    unary("Twice", lambda site, x, dtype: call("add", x, x), lambda attrs, args: args[0] * 2),
    domain="acme",
)
"""


def test_an_operator_of_a_file_is_known_to_commands(shell: Shell, tmp_path: Path) -> None:
    model = two_inputs("Twice", "acme")
    del model.graph.node[0].input[1:]
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    path = tmp_path / "twice.onnx"
    path.write_bytes(model.SerializeToString())
    code, _, err = shell("check", str(path))
    assert code == 2 and "operator domain 'acme'" in err
    plugin = ("--plugin", written(tmp_path, OPERATOR))
    assert shell("check", str(path), *plugin)[0] == 0
    code, out, _ = shell("compile", str(path), "--until", "legalized", "--check", *plugin)
    assert code == 0 and "WRONG" not in out
    broken = OPERATOR.replace("args[0] * 2", "args[0].tolist()")
    plugin = ("--plugin", written(tmp_path, broken))
    code, out, _ = shell("compile", str(path), "--until", "legalized", "--check", *plugin)
    assert code == 1 and "could not be checked, because the operator 'Twice'" in out
    assert "returned a list, not an array" in " ".join(out.split()) and "WRONG" not in out
    user_operators.forget("Twice")


def test_a_plug_in_names_a_device(shell: Shell) -> None:
    code, out, _ = shell("compile", MODEL, "--json", "--until", "rolled", "--target", "acme-gpu")
    assert code == 0 and json.loads(out)["target"] == "acme"
    code, _, err = shell("compile", MODEL, "--target", "acme-ram")
    assert code == 2 and "the plug-in 'acme-ram' is no device: it is a function" in err


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_that_is_loaded_again_is_read_again(tmp_path: Path) -> None:
    text = "LIMIT = {}\ndef limit(): return LIMIT\n"
    found = []
    for n in (1, 2, 1):
        limit = extend.load(written(tmp_path, text.format(n)) + ":limit")
        assert callable(limit)
        found.append(limit())
    assert found == [1, 2, 1]


HALF = """
import explorer
@explorer.compiler_pass("half", after="fuse (Welder)")
def half(program): return program
@explorer.policy("halved", system="rammer")
def halved(facts): return None
"""


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(5)", "SystemExit: 5"),
        ("import nothing_of_this_name", "No module named"),
        ("def broken(:", "SyntaxError"),
        ("explorer.compiler_pass('x' * 99)", "a pass needs a name"),
        ("raise ValueError('x' * 100_000)", "ValueError: xxx"),
    ],
)
def test_a_file_that_fails_is_named_and_leaves_nothing_registered(
    tmp_path: Path, rest: str, said: str
) -> None:
    with pytest.raises(BadOption) as refused:
        extend.load(written(tmp_path, HALF + rest))
    assert said in refused.value.sentence and len(refused.value.sentence) < 1000
    assert "half" not in registry.passes() and "halved" not in policy_call.by_system("rammer")
    assert "ironworks_plugin_mine" not in sys.modules


def test_a_plug_in_that_enters_nothing_is_no_open_door(shell: Shell, tmp_path: Path) -> None:
    path = written(tmp_path, "def place(facts): return None\n")
    code, _, err = shell("compile", MODEL, "--plugin", path)
    assert code == 2 and "it registers nothing that takes part by itself" in err


def test_large_files_pipes_and_folders_are_no_plug_ins(tmp_path: Path) -> None:
    import os

    large = written(tmp_path, "#" * (1 << 21))
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    for path in (large, str(tmp_path / "pipe.py"), str(tmp_path / "folder.py")):
        with pytest.raises(BadOption, match=r"no plug-in|there is no file"):
            extend.load(path)


TARGET = """
from explorer.devices.target import register
from explorer.targets.cpu import Cores

class Weft(Cores):
    def print(self, kernel, tiling, env, sizes, device):
        return "weft code"

register("weft", Weft())
"""
PICTURE = """
import widgets

@widgets.picture("origins_of_kernels", title="Operators of a kernel", unit="operators")
def origins_of_kernels(c):
    return [(call.name, len(call.origin)) for call in c.program.kernel_calls]
"""
LIBRARY = """
import explorer

@explorer.library("acme.twice", pattern="Relu")
def twice(x):
    return x * 2
"""


def test_a_file_with_only_a_library_is_a_plug_in(shell: Shell, tmp_path: Path) -> None:
    from explorer.relax import dispatch

    flags = ("--plugin", written(tmp_path, LIBRARY), "--set", "relax.dispatch=acme.twice")
    code, _, err = shell("compile", MODEL, "--until", "typed", *flags)
    assert (code, err) == (0, "")
    del dispatch._registered["acme.twice"]


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The flags of a target in a file, with its data sheet."""
    from explorer.devices import target

    sheet = (PLUGIN / "dsp.toml").read_text().replace('"dsp"', '"weft"')
    (tmp_path / "weft.toml").write_text(sheet.replace("acme-dsp", "weft-6"))
    yield "--target", str(tmp_path / "weft.toml"), "--plugin", written(tmp_path, TARGET)
    if "weft" in target._registered:
        target.forget("weft")


def test_a_target_of_a_file_compiles_on_the_command_line(
    shell: Shell, weft: tuple[str, ...]
) -> None:
    code, out, err = shell("explain", MODEL, "--stage", "emitted", *weft)
    assert (code, err) == (0, "") and "weft code" in out and "thread block" not in out
    code, out, _ = shell("compile", MODEL, "--json", *weft)
    assert code == 0 and json.loads(out)["stage"] == "planned"
    code, out, _ = shell("devices", weft[1], *weft[2:])
    assert code == 0 and "weft-6" in out


def test_a_target_of_a_file_reaches_the_workers_of_a_sweep(
    shell: Shell, weft: tuple[str, ...]
) -> None:
    vary = ("--vary", "roller.top_k=1,10", "--json")
    code, out, err = shell("sweep", MODEL, *vary, *weft)
    assert (code, err) == (0, "")
    assert [row["kind"] for row in json.loads(out)["rows"]] == ["simulated"] * 2


def test_a_report_has_the_picture_of_a_file(shell: Shell, tmp_path: Path) -> None:
    import widgets

    path = tmp_path / "report.html"
    plugin = written(tmp_path, PICTURE)
    code, _, err = shell("report", MODEL, "-o", str(path), "--plugin", plugin, "--target", "v100")
    assert (code, err) == (0, "")
    assert "Operators of a kernel" in path.read_text("utf-8")
    widgets.forget_picture("origins_of_kernels")


@pytest.mark.parametrize("registration", [TARGET, PICTURE])
def test_a_file_that_fails_after_a_target_or_a_picture_leaves_nothing(
    registration: str, tmp_path: Path
) -> None:
    from explorer.devices import target
    from widgets.rooms import gallery

    with pytest.raises(BadOption, match="ZeroDivisionError"):
        extend.load(written(tmp_path, f"{registration}\n1 / 0\n"))
    assert "weft" not in target._registered and "origins_of_kernels" not in gallery.choices()
