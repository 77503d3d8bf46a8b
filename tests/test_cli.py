"""The shell: every command from its words to its exit code."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from explorer import cli
from explorer import plain_text as text
from explorer.cli import arguments
from explorer.compiler.options import Options
from explorer.errors import BadOption, CheckFailed
from explorer.ir.stage import Stage
from explorer.tuning import settings
from explorer.tuning.peers.runtimes import PEERS
from explorer.views import rammer
from tests.tuning.models import mlp, written
from tests.two_inputs import two_inputs

Shell = Callable[..., tuple[int, str, str]]
OURS = sorted(name for name, command in cli.COMMANDS.items() if command.function)
DATA = Path(__file__).parent / "data"
SKIP, RESNET = str(DATA / "tiny_skip.onnx"), str(DATA / "tiny_resnet18.onnx")


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&-"])
def test_streams_that_are_closed_are_no_fault(closed: str, tmp_path: Path) -> None:
    python = f'"{sys.executable}" -m explorer'
    words = f"{python} devices {closed}; echo $? >&3; {python} check no.onnx {closed}; echo $? >&3"
    said = subprocess.run(
        ["sh", "-c", f"exec 3>codes; {words}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (tmp_path / "codes").read_text().split() == ["0", "2"]
    assert "Traceback" not in said.stderr and "fault" not in said.stderr


def test_a_reader_that_goes_away_is_no_fault() -> None:
    said = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m explorer zoo | true'],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.returncode == 0 and not said.stderr


def test_every_stage_to_stop_at_is_in_the_help(shell: Shell) -> None:
    _, out, _ = shell("compile", "--help")
    assert all(stage.name.lower() in out for stage in Stage)


def test_an_unknown_operator_is_answered_with_names_that_exist(shell: Shell) -> None:
    _, _, err = shell("explain", SKIP, "--op", "zzzz")
    assert "named 'zzzz'; it has '" in err


def test_what_is_planned_for_other_hardware_is_said_to_be_measured_here(shell: Shell) -> None:
    _, out, _ = shell("explain", SKIP, "--stage", "rammer", "--set", "hardware.units=4")
    head = out.splitlines()[0]
    assert "4 cores of this-cpu, changed" in head and "; measured here: " in head


def test_the_seconds_of_a_compile_add_up(shell: Shell) -> None:
    _, out, _ = shell("compile", SKIP, "--until", "rolled")
    rows = out.split("\n\n")[1].splitlines()[2:]
    total = re.search(r"([0-9.]+) s in all", out)
    assert total is not None
    spent = (float(row.split()[-1]) for row in rows if " cached " not in row)  # by a test before
    assert abs(sum(spent) - float(total[1])) < 0.001 * len(rows)


def test_what_a_step_took_another_time_is_no_part_of_the_seconds(shell: Shell) -> None:
    shell("compile", SKIP, "--until", "rolled")
    _, out, _ = shell("compile", SKIP, "--until", "rolled")
    rows = [row.split() for row in out.split("\n\n")[1].splitlines()[2:]]
    total = re.search(r"([0-9.]+) s in all", out)
    assert total is not None and any("cached" in row for row in rows)
    spent = [float(row[-1]) for row in rows if "cached" not in row]
    assert abs(sum(spent) - float(total[1])) < 0.001 * len(rows) and min(spent) >= 0
    assert all(row[-2] == "cached" and float(row[-1]) >= 0 for row in rows if "cached" in row)


def test_no_line_of_weld_is_wider_than_110_columns(shell: Shell) -> None:
    _, out, _ = shell("weld", "zoo:small_bert")
    assert "not welded" in out and max(map(len, out.splitlines())) <= 110


def test_a_misspelt_command_is_named_with_what_was_meant(shell: Shell) -> None:
    code, _, err = shell("rase")
    assert code == 2 and "no command 'rase'; did you mean 'race'?" in err


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
        (ZeroDivisionError("x"), 70),
    ],
)
def test_whatever_goes_wrong_is_one_line_and_never_a_traceback(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def broken(given: list[str]) -> int:
        raise raised

    monkeypatch.setattr("explorer.cli.commands.devices.zoo_main", broken)
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


@pytest.mark.few(2)
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


def test_the_zoo_lists_its_models_with_their_weights(shell: Shell) -> None:
    code, out, _ = shell("zoo", "--json")
    models = json.loads(out)["models"]
    assert code == 0 and {"zoo:squeezenet", "zoo:bert"} < {m["name"] for m in models}
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
        ("roller.measure=10", "roller", "measure", 10),
        ("welder.enabled=off", "welder", "enabled", False),
        ("welder.connect=a:DRAM, b:L2", "welder", "connect", (("a", "DRAM"), ("b", "L2"))),
        ("rammer.policy=op-by-op", "rammer", "policy", "op-by-op"),
        ("grinder.schedule=host", "grinder", "schedule", "host"),
        ("grinder.unroll=4", "grinder", "unroll", 4),
        ("grinder.inline_branches=off", "grinder", "inline_branches", False),
    ],
)
def test_a_setting_takes_the_type_of_its_field(
    words: str, group: str, field: str, value: object
) -> None:
    assert getattr(getattr(settings.apply(Options(), [words]), group), field) == value


def test_a_policy_is_set_by_its_name() -> None:
    assert settings.apply(Options(), ["welder.policy=gain"]) == Options()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("roller.topk=3", "did you mean 'roller.top_k'"),
        ("rolle.top_k=3", "did you mean 'roller'"),
        ("roller.top_k=many", "a whole number, not 'many'"),
        ("roller.top_k", "group.field=value"),
        ("welder.enabled=perhaps", "true or false"),
        ("roller.pinned=x", "no plain value"),
        ("welder.connect=a", "with a colon between"),
        ("welder.policy=weigh", "one of gain"),
        ("rammer.policy=fastest", "found 'fastest'"),
        ("grinder.schedule=fine", "one of auto, device, host, unrolled, eager, found 'fine'"),
        ("grinder.unroll=0", "from 1 to 64, found 0"),
        ("rammer.threads=-1", "from 0 to 1024, found -1"),
        ("rammer.threads=99999", "from 0 to 1024, found 99999"),
        ("roller.top_k=0", "from 1 to 10000"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(words: str, said: str) -> None:
    with pytest.raises(BadOption, match=said.replace(".", r"\.")):
        settings.apply(Options(), [words])


HOSTILE = (
    "9" * 23,
    "9" * 5000,
    "-1",
    "-" + "9" * 40,
    "1e999",
    "nan",
    "",
    "\x1b[31m",
    "x" * 9000,
    "a:b",
)
FIELDS = [
    (group.name, field.name)
    for group in fields(Options)
    if is_dataclass(part := getattr(Options(), group.name))
    for field in fields(part)
]


@pytest.mark.parametrize(("group", "field"), FIELDS, ids=[".".join(f) for f in FIELDS])
def test_every_option_has_a_range_and_says_it_in_one_sentence(group: str, field: str) -> None:
    for value in HOSTILE:
        try:
            settings.apply(Options(), [f"{group}.{field}={value}"])
        except BadOption as refused:
            assert len(refused.sentence) < 400
    assert len(FIELDS) > 20


@pytest.mark.parametrize(("group", "field"), FIELDS, ids=[".".join(f) for f in FIELDS])
@pytest.mark.parametrize(
    "value",
    [10**23, -1, 0.5, b"x", [1], object(), float("nan")],
    ids=("huge", "negative", "half", "bytes", "list", "object", "nan"),
)
def test_a_value_of_no_type_that_an_option_takes_is_refused(
    group: str, field: str, value: object
) -> None:
    part = getattr(Options(), group)
    if value == 0.5 and field in ("margin", "share"):
        return
    with pytest.raises(BadOption, match=rf"{group}\.{field} is "):
        replace(part, **{field: value})


def test_a_number_far_out_of_range_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("9" * 23, "9" * 4000):
        assert cli.main(["compile", "zoo:small_nerf", "--set", f"roller.top_k={value}"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "roller.top_k is a whole number from 1 to 10000" in said


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


def test_a_rank_correlation_of_too_few_bricks_is_a_dash() -> None:
    assert text.correlation(float("nan")) == "–" and text.correlation(0.876) == "0.88"


def test_what_would_steer_a_terminal_is_shown_as_a_number() -> None:
    assert text.shown("a\x1b[31mb\x9b\r\x7f\x00") == "a\\x1b[31mb\\x9b\\x0d\\x7f\\x00"
    assert text.shown("\tµs – ─\n") == "\tµs – ─\n"


def test_no_name_in_a_model_steers_the_terminal(shell: Shell, tmp_path: Path) -> None:
    name = "e\x1b[31mRED"
    node = helper.make_node("Relu", ["x"], ["y"], name=name)
    path = written(tmp_path, [node], {"x": [8, 8]}, ["y"]).path
    words = ("explain", path, "--stage", "rammer", "--target", "v100")
    code, out, _ = shell(*words)
    assert code == 0 and "e\\x1b[31mRED" in out and "\x1b" not in out
    assert json.loads(shell(*words, "--json")[1])["calls"][0]["origins"] == [name]
    code, _, err = shell("check", str(tmp_path / "no\x1b[2J.onnx"))
    assert code == 2 and "no\\x1b[2J.onnx" in err and "\x1b" not in err


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    rows: Any = [("a", "1"), ("long", "200")]
    assert text.table(("name", ">n"), rows).splitlines() == [
        "  name    n",
        "  ────  ───",
        "  a       1",
        "  long  200",
    ]


# Commands that compile.


@pytest.fixture
def told(shell: Shell) -> Callable[..., Any]:
    """The object that a command prints with --json, where all went well."""

    def tell(*words: str) -> Any:
        code, out, err = shell(*words, "--json")
        assert code == 0 and err == "", err
        return json.loads(out)

    return tell


@pytest.fixture
def symbolic(tmp_path: Path) -> str:
    """A model with the symbol `batch`."""
    path = tmp_path / "two_inputs.onnx"
    path.write_bytes(two_inputs().SerializeToString())
    return str(path)


def test_compile_says_what_became_of_the_model(told: Callable[..., Any], symbolic: str) -> None:
    found = told("compile", symbolic, "--bind", "batch=5", "--bounds", "batch=1:64")
    assert found["model"] == "two_inputs" and found["stage"] == "emitted"
    assert found["sizes"] == {"batch": 5}
    assert {"name", "seconds"} <= found["steps"][0].keys()
    assert found["operators"]["library"] == 0
    assert found["operators"]["compiled"] == found["operators"]["total"] > 0
    kernels = found["kernels"]
    assert kernels["compiled_now"] + kernels["from_cache"] == kernels["total"] > 0
    assert 0 <= found["memory"]["planned_bytes"] <= found["memory"]["naive_bytes"]
    assert found["bricks"] > 0 and found["seconds"] > 0


def test_compile_stops_where_it_is_told_to(told: Callable[..., Any]) -> None:
    found = told("compile", SKIP, "--until", "welded")
    assert found["stage"] == "welded"
    assert found["steps"][-1]["name"] == "select convolution algorithms"
    assert found["memory"] is None and found["bricks"] is None


def test_compile_with_check_puts_a_badge_on_every_step(told: Callable[..., Any]) -> None:
    steps = told("compile", SKIP, "--check", "--until", "planned")["steps"]
    assert all(step["checked"] is True for step in steps[1:])


def test_a_step_that_changes_values_makes_the_answer_no(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.passes.validate.Validation.of", lambda *_: "y: off by 3")
    code, out, _ = shell("compile", SKIP, "--check", "--until", "rolled")
    assert code == 1 and "WRONG: y: off by 3" in out


def test_check_forecasts_every_operator(told: Callable[..., Any]) -> None:
    found = told("check", SKIP)
    assert found["supported"] and found["weight_bytes"] > 0
    assert {o["becomes"] for o in found["operators"]} == {"compiled"}


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("stage", "rows"),
    [
        ("relax", "bindings"),
        ("typed", "bindings"),
        ("imported", "bindings"),
        ("welder", "groups"),
        ("roller", "kernels"),
        ("rammer", "calls"),
        ("memory", "buffers"),
        ("codegen", "kernels"),
    ],
)
def test_explain_has_rows_for_every_system(told: Callable[..., Any], stage: str, rows: str) -> None:
    assert told("explain", RESNET, "--stage", stage)[rows]


def test_explain_tells_every_rewrite_of_a_tile_program(
    told: Callable[..., Any], shell: Shell
) -> None:
    rows = told("explain", RESNET, "--stage", "roller", "--rewrites")["kernels"]
    names = [step["name"] for step in rows[0]["steps"]]
    assert names[0] == "lower" and "vectorise" in names
    assert all(step["lines"] for row in rows for step in row["steps"])
    code, _, err = shell("explain", RESNET, "--stage", "memory", "--rewrites")
    assert code == 2 and "stage rolled" in err


@pytest.mark.exhaustive
def test_explain_tells_what_would_be_printed_for_a_gpu(
    told: Callable[..., Any], shell: Shell
) -> None:
    flags = ("explain", RESNET, "--stage", "roller", "--rewrites", "--target", "v100")
    found = told(*flags)
    assert found["predicted_for"] == "v100"
    for row in found["kernels"]:
        assert bool(row["steps"]) != bool(row.get("refused"))
    names = [step["name"] for step in found["kernels"][0]["steps"]]
    assert names[0] == "lower" and names[-1] == "place syncs"
    assert "a prediction, for it is a data sheet" in shell(*flags)[1]


def test_explain_tells_which_thread_blocks_a_wall_took(
    told: Callable[..., Any], shell: Shell
) -> None:
    """On a GPU's data sheet: no tile of a processor is one of these."""
    flags = (RESNET, "--target", "v100", "--stage", "roller")
    for kernel in told("explain", *flags)["kernels"]:
        taken = [w for w in kernel["candidates"] if w["taken"]]
        assert taken and all("threads" in w["block"] for w in kernel["candidates"])
        for w in kernel["candidates"]:
            assert sum(w["terms_us"].values()) == pytest.approx(w["cost_us"])
    name = kernel["kernel"]
    _, out, _ = shell("explain", *flags, "--op", name)
    assert f"the wall took {taken[0]['block']}" in out and "registers" not in out


@pytest.mark.exhaustive
def test_explain_and_compile_tell_of_thread_blocks(told: Callable[..., Any], shell: Shell) -> None:
    flags = ("zoo:small_lstm", "--target", "cuda-sim")
    found = told("explain", *flags, "--stage", "emitted")
    assert found["predicted_for"] == "cuda-sim"
    for row in found["kernels"]:
        assert "@cuda.jit" in row["source"] and row["blocks"] * row["threads"] > 0
        assert "registers" in row or "ironworks[cuda]" in row["unassembled"]
    name = found["kernels"][-1]["kernel"]
    code, out, _ = shell("explain", *flags, "--stage", "emitted", "--op", name)
    assert code == 0 and f"# {name}\n# p" in out.lower() and "cuda.threadIdx.x" in out
    blocks = told("compile", *flags, "--check")["blocks"]
    assert blocks["printed"] == len(found["kernels"]) and not blocks["refused"]
    assert blocks["simulated"] is True
    (line,) = (x for x in shell("compile", *flags)[1].split("\n") if "as thread blocks of" in x)
    assert f"{blocks['printed']} printed as thread blocks of cuda-sim, 0 refused" in line
    assert ("registers a thread at most" in line) == (blocks["registers"] is not None)


def test_explain_tells_which_line_of_the_source_an_instruction_comes_from(
    told: Callable[..., Any],
) -> None:
    (kernel,) = told("explain", "zoo:tiny_skip", "--stage", "emitted", "--op", "sum_1")["kernels"]
    source = kernel["source"].rstrip("\n").split("\n")
    for name in ("llvm", "assembly"):
        lines, texts = kernel[name]["lines"], kernel[name]["text"].rstrip("\n").split("\n")
        assert len(lines) == len(texts) and 0 < max(lines) <= len(source)
    stores = [n for n, text in zip(kernel["llvm"]["lines"], texts_of(kernel)) if " store " in text]
    assert stores and all("nest0(" in source[n - 1] for n in stores if n)
    assert kernel["note"].startswith("This is the code that runs")
    (plain, *_) = told("explain", "zoo:tiny_skip", "--stage", "emitted")["kernels"]
    assert "llvm" not in plain, "a model has many"


def texts_of(kernel: Any) -> list[str]:
    return str(kernel["llvm"]["text"]).split("\n")


def test_explain_memory_tells_storages_with_the_reason_of_each_reuse(
    shell: Shell, told: Callable[..., Any]
) -> None:
    flags = ("explain", RESNET, "--stage", "memory", "--set", "memory.policy=storages")
    found = told(*flags)
    assert found["policy"] == "storages" and found["planned_formula"] and found["storages"]
    reused = next(b for b in found["buffers"] if b["taken"] == "reused")
    assert reused["reason"] in shell(*flags, "--op", reused["name"])[1]


def test_explain_grinder_is_a_tree(told: Callable[..., Any]) -> None:
    assert told("explain", RESNET, "--stage", "grinder")["tasks"]["parts"]


def test_explain_grinder_lists_the_ways_of_a_loop_with_what_they_should_take(
    told: Callable[..., Any], shell: Shell
) -> None:
    flags = ("explain", str(DATA / "tiny_while.onnx"), "--stage", "grinder")
    (found,) = told(*flags)["control"]
    ways = {c["label"]: c["refused"] for c in found["candidates"]}
    assert found["kind"] == "loop" and found["chosen"]["level"] == "device"
    assert "its data may end it" in ways["unrolled"] and not ways["on the host"]
    _, text, _ = shell(*flags, "--set", "grinder.schedule=host")
    assert f"loop {found['binding']}: host; predicted per iteration" in text


def test_explain_calls_kernels_as_pictures_do_and_is_asked_so(shell: Shell) -> None:
    by_file, by_label = (shell("explain", RESNET, "--op", n) for n in ("node_Conv_92", "Conv_92"))
    assert by_file[0] == by_label[0] == 0 and by_file[1] == by_label[1]
    for stage in ("welder", "roller", "memory", "emitted"):
        code, out, _ = shell("explain", RESNET, "--stage", stage)
        rows = [line.split() for line in out.splitlines()]
        assert code == 0 and ["Conv_92", "relu_1"] in [row[:2] for row in rows], stage


def test_explain_one_operator_shows_every_choice_and_why_not(shell: Shell) -> None:
    code, out, _ = shell("explain", RESNET, "--op", "node_Conv_92")
    assert code == 0
    assert "merges weighed" in out and "refused" in out and "registers" in out


@pytest.mark.exhaustive
def test_merges_are_told_under_the_names_of_the_graph(shell: Shell) -> None:
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    code, out, _ = shell("explain", str(light), "--op", "Conv 7", "--stage", "welder")
    assert code == 0
    assert "Relu 4 into Conv 7" in out and "join Conv 5 too" in out
    assert not re.search(r"\br\d+ into r\d+", out)


def test_an_operator_that_is_not_there_is_answered_with_near_ones(shell: Shell) -> None:
    code, _, err = shell("explain", RESNET, "--op", "node_Conv_91")
    assert code == 2 and "'node_Conv_92'" in err


def test_the_wall_of_another_device_is_planned_and_not_measured(told: Callable[..., Any]) -> None:
    found = told("explain", RESNET, "--stage", "rammer", "--target", "v100")
    assert found["planned"]["units"] % 80 == 0 and found["measured"] is None


# Welding by hand.


@pytest.fixture
def layers(tmp_path: Path) -> str:
    """The path of two layers over a symbolic batch, with a softmax."""
    return mlp(tmp_path).path


def test_weld_lists_groups_levels_and_refusals(told: Callable[..., Any], shell: Shell) -> None:
    found = told("weld", str(DATA / "tiny_bert.onnx"))
    assert found["policy"] == "gain" and found["connect"] == {}
    assert found["kernels_welded"] == len(found["groups"]) < found["kernels_apart"]
    for group in found["groups"]:
        assert set(group["connected"]) <= set(group["members"][:-1])
        assert group["recompute"] >= 1 and group["predicted_us"] > 0
    far = found["levels"][-1]
    assert far["level"] == "L3" and far["bytes_welded"] < far["bytes_apart"]
    assert sum(g["bytes_welded"] for g in found["groups"]) == far["bytes_welded"]
    assert all(r["text"] and r["merge"] for r in found["refused"])
    code, out, _ = shell("weld", str(DATA / "tiny_bert.onnx"))
    assert code == 0 and "what would flip it" in out and "L3 to memory" in out


def test_weld_takes_a_policy_and_connections(told: Callable[..., Any], layers: str) -> None:
    found = told("weld", layers, "--policy", "shipped", "--connect", "h=DRAM")
    assert found["policy"] == "shipped" and found["connect"] == {"h": "DRAM"}
    assert all("h" not in g["connected"] for g in found["groups"])


def test_weld_says_why_and_why_not(told: Callable[..., Any], shell: Shell, layers: str) -> None:
    found = told("weld", layers, "--why", "h")["why"]
    assert found["value"] == "h" and [m["level"] for m in found["moves"]][-1] == "DRAM"
    for move in found["moves"]:
        assert move["legal"] == (move["refused"] is None) == (move["predicted_us"] is not None)
    assert "time predicted" in shell("weld", layers, "--why", "h")[1]
    code, _, err = shell("weld", layers, "--why", "hh")
    assert code == 2 and "did you mean 'h'" in err


def test_weld_tells_bytes_at_the_sizes_that_are_bound(
    told: Callable[..., Any], shell: Shell, layers: str
) -> None:
    one, many = (told("weld", layers, "--bind", f"batch={n}", "--why", "h") for n in (1, 2048))
    assert many["sizes"] == {"batch": 2048}
    for small, large in zip(one["groups"], many["groups"], strict=True):
        assert large["bytes_welded"] > 100 * small["bytes_welded"]
        assert large["predicted_us"] > small["predicted_us"]
    assert many["why"]["now"]["dram_bytes"] > 100 * one["why"]["now"]["dram_bytes"]
    for small, large in zip(one["why"]["moves"], many["why"]["moves"], strict=True):
        assert large["dram_bytes"] > 100 * small["dram_bytes"]
    assert "batch=2048" in shell("weld", layers, "--bind", "batch=2048")[1]


def test_weld_measures_against_every_operator_its_own_kernel(
    told: Callable[..., Any], layers: str
) -> None:
    flags = ("--connect", "h=DRAM", "--measure", "--seconds", "0.02")
    found = told("weld", layers, "--threads", "1", *flags)["measured"]
    assert found["threads"] == 1 and {"apart", "default"} <= found.keys()
    apart = found["apart"]
    assert apart["ratio_low"] <= apart["ratio"] <= apart["ratio_high"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "cleverest"), "found 'cleverest'"),
        (("--connect", "h"), "like h_12=L1, not 'h'"),
        (("--connect", "h=L9"), "no such level"),
        (("--connect", "nosuch=L1"), "no kernel makes a value named 'nosuch'"),
        (("--target", "v100", "--measure"), "v100 is not this machine"),
    ],
)
def test_weld_refuses_what_cannot_be(
    shell: Shell, layers: str, words: tuple[str, ...], said: str
) -> None:
    code, _, err = shell("weld", layers, *words)
    assert code == 2 and said in err and err.count("\n") == 1


@pytest.mark.exhaustive
def test_weld_plans_a_device_that_is_not_here(told: Callable[..., Any]) -> None:
    found = told("weld", RESNET, "--target", "v100")
    assert [m["level"] for m in found["levels"]] == ["register", "shared"]


# Laying walls, policy by policy.


def test_ram_lays_policies_side_by_side(told: Callable[..., Any], shell: Shell) -> None:
    found = told("ram", RESNET, "--threads", "2")
    assert found["kind"] == "planned" and found["units"] == 2
    policies = {row["policy"]: row for row in found["policies"]}
    assert next(iter(policies)) == "op-by-op" and {"wavefront", "gang"} <= policies.keys()
    for row in policies.values():
        area = row["units"] * row["total_us"]
        assert row["busy"] * area + sum(row["idle_us"].values()) == pytest.approx(area, rel=0.01)
        assert row["kernel_us"] + row["overhead_us"] == pytest.approx(row["total_us"])
        assert row["rprograms"] <= policies["op-by-op"]["rprograms"]
    code, out, _ = shell("ram", RESNET, "--threads", "2", "--policy", "wavefront")
    assert code == 0 and "wavefront weighs" in out and "idle by cause" in out
    assert "gang" not in out


def test_ram_simulates_a_data_sheet_and_says_what_was_weighed(told: Callable[..., Any]) -> None:
    found = told("ram", RESNET, "--target", "v100", "--policy", "wavefront,critical-path")
    assert found["kind"] == "simulated" and found["units"] % 80 == 0
    base, rammed, _ = found["policies"]
    assert rammed["speedup"] > 1 and rammed["overhead_us"] < base["overhead_us"]
    assert found["weighed"]["policy"] == "wavefront"
    waves = [c for c in found["weighed"]["choices"] if {"joined", "apart"} <= c["terms"].keys()]
    assert waves and all(
        c["taken"] == (c["terms"]["joined"] <= c["terms"]["apart"]) == (not c["refused"])
        for c in waves
    )


def test_ram_counts_trips_at_the_sizes_that_are_bound(
    shell: Shell, layers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rammer, "trip_count_note", lambda c, sizes=None: [f"counted at {sizes}"])
    words = ("--target", "v100", "--policy", "wavefront", "--bind", "batch=3")
    assert "counted at {'batch': 3}" in shell("ram", layers, *words)[1]


def test_ram_measures_each_policy_beside_its_plan(told: Callable[..., Any], layers: str) -> None:
    found = told("ram", layers, "--threads", "1", "--policy", "wavefront", "--measure")["measured"]
    assert [row["policy"] for row in found] == ["op-by-op", "wavefront"]
    for row in found:
        assert row["measured_us"] > 0 and row["missing"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "cleverest"), "no policy 'cleverest'; there are wavefront"),
        (("--policy", "gang,gang"), "--policy: expected names with commas between, none twice"),
        (("--target", "v100", "--measure"), "v100 is not this machine"),
        (("--target", "v1000"), "no data sheet for 'v1000'; did you mean 'v100'?"),
        (("--threads", "0"), "--threads takes 1 to"),
    ],
)
def test_ram_refuses_what_cannot_be(
    shell: Shell, layers: str, words: tuple[str, ...], said: str
) -> None:
    code, _, err = shell("ram", layers, *words)
    assert code == 2 and said in err and err.count("\n") == 1


def test_nothing_is_timed_on_a_device_that_is_not_here(shell: Shell) -> None:
    code, _, err = shell("time", RESNET, "--target", "v100")
    assert code == 2 and "v100 is not this machine" in err


def on_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.runtime.cuda import gpu
    from explorer.runtime.cuda.driver import SimulatedDriver

    monkeypatch.setattr(gpu, "Gpu", lambda: SimulatedDriver(3))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "words", [(), ("--launches", "wave", "--graph"), ("--launches", "operator")]
)
def test_a_run_on_a_gpu_is_told_beside_the_plan(
    told: Callable[..., Any],
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """By the stand-in, whose microseconds are none; and its recording is told as one."""
    on_the_stand_in(monkeypatch)
    kept = tmp_path / "a.run.json"
    own = ("--target", "cuda-sim", "--seconds", "0.01", "--record", str(kept))
    found = told("gpu", "zoo:small_lstm", *own, *words)
    assert found["device"] == "the stand-in" and found["units"] == 3 and found["apart"] < 1e-5
    assert sum(call["share"] for call in found["calls"]) == pytest.approx(1)
    assert found["launches"] == (words[1] if words else "program")
    shown = ("gpu", "zoo:small_lstm", "--target", "cuda-sim", "--recorded", str(kept))
    code, out, _ = shell(*shown)
    assert code == 0 and out.startswith("recording: small_lstm on the stand-in, ")
    assert [c["name"] for c in told(*shown)["calls"]] == [c["name"] for c in found["calls"]]


def test_a_wrong_answer_of_a_gpu_is_a_no(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN in the place of a number is no small difference."""
    from explorer.runtime.cuda.run import ProgramRun

    on_the_stand_in(monkeypatch)
    own = ProgramRun.run

    def wrong(self: ProgramRun, inputs: Any, out: Any = None) -> Any:
        found = own(self, inputs, out)
        next(iter(found.values())).flat[0] = np.nan
        return found

    monkeypatch.setattr(ProgramRun, "run", wrong)
    code, _, err = shell("gpu", "zoo:small_lstm", "--target", "cuda-sim", "--seconds", "0.01")
    assert code == 1 and "ironworks and the CPU differ at the output" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "cpu"), "has no thread blocks that a GPU could run (try: --target h100)"),
        (("--recorded", "h200"), "no recording of small_lstm on h200 comes with Ironworks"),
        (("--recorded", "a.json", "--graph", "--launches", "wave"), "takes no --record"),
        ((), "GPU"),  # none is here, or nothing that speaks to one
    ],
)
def test_a_gpu_that_cannot_be_is_told(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    from explorer.errors import DeviceFault
    from explorer.runtime.cuda import gpu

    def absent() -> None:
        raise DeviceFault("there is no GPU here, or no driver of one")

    monkeypatch.setattr(gpu, "Gpu", absent)
    code, _, err = shell("gpu", "zoo:small_lstm", *words)
    assert code == 2 and said in err and err.count("\n") == 1


@pytest.mark.exhaustive
def test_a_recording_that_ships_is_told(told: Callable[..., Any]) -> None:
    assert told("gpu", "zoo:small_bert", "--recorded", "h200")["error"] is None  # planned for h100
    found = told("gpu", "zoo:small_bert", "--target", "h200", "--recorded", "h200")
    assert found["error"] is not None
    assert found["recorded_on"].startswith("NVIDIA H200") and found["planned_us"] > 0
    assert all(call["planned_us"] > 0 and call["us"] > 0 for call in found["calls"])


def test_a_recording_is_not_shown_for_other_sizes(shell: Shell) -> None:
    words = ("gpu", "zoo:small_bert", "--recorded", "h200", "--bind", "batch=4")
    code, out, err = shell(*words)
    said = "the recording is of a run with batch = 1, not with batch = 4"
    assert code == 2 and not out and said in err


def test_time_gives_an_interval_and_the_error_of_the_plan(told: Callable[..., Any]) -> None:
    found = told("time", RESNET, "--threads", "1", "--seconds", "0.02", "--profile")
    assert 0 < found["low_us"] <= found["median_us"] <= found["high_us"] and found["n"] >= 8
    assert found["threads"] == 1 and "error" in found
    profile = found["profile"]
    assert sum(k["share"] for k in profile["kernels"]) == pytest.approx(1)
    assert {"name", "planned_us", "measured_us", "share"} <= profile["operators"][0].keys()


def test_time_takes_its_inputs_and_sizes_from_a_file(
    told: Callable[..., Any], symbolic: str, tmp_path: Path
) -> None:
    given = {"a": np.ones((7, 4), np.float32), "b": np.ones(3, np.float32)}
    np.savez(tmp_path / "given.npz", **given)  # type: ignore[arg-type]
    found = told("time", symbolic, "--seconds", "0.02", "--inputs", str(tmp_path / "given.npz"))
    assert found["sizes"] == {"batch": 7}


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> str:
    """A runtime that is not installed."""
    monkeypatch.setitem(PEERS, "absent", ("no_such_package", None))  # type: ignore[arg-type]
    return "absent"


def test_a_race_compares_answers_and_gives_a_verdict(told: Callable[..., Any], absent: str) -> None:
    pytest.importorskip("onnxruntime")
    found = told("race", RESNET, "--against", f"onnxruntime,{absent}", "--seconds", "0.05")
    runtimes = found["runtimes"]
    assert list(runtimes) == ["ironworks", "onnxruntime"]
    for told in runtimes.values():
        assert {"median_us", "low_us", "high_us", "n", "max_abs_error"} <= told.keys()
    assert found["ratio"] > 0
    assert found["verdict"] in ("faster", "slower", "not distinguishable")
    assert absent in found["skipped"]


def test_a_race_that_nobody_else_ran_is_no_answer(shell: Shell, absent: str) -> None:
    code, out, _ = shell("race", RESNET, "--against", absent, "--seconds", "0.02")
    assert code == 1 and f"{absent} did not run" in out
    assert "ironworks[peers]" in out


def test_answers_that_differ_end_a_race(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("explorer.tuning.compare.TOLERANCE_SHARE", -1.0)
    code, _, err = shell("race", RESNET, "--seconds", "0.02")
    assert code == 1 and "differ at the output" in err and err.count("\n") == 1
