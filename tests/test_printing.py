"""The values that API.md names, as a shell and a notebook show them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from IPython.lib.pretty import pretty

import explorer
import widgets
from explorer.compiler.compilation import Compilation
from explorer.ir.text.parser import parse_program
from explorer.printed import MOST_LINES, shortened

DATA = Path(__file__).parent / "data"

WIDE = 200  # characters of a line of a summary


@pytest.fixture(scope="module")
def bert() -> Compilation:
    return explorer.compile(DATA / "tiny_bert.onnx")


def _values(c: Compilation) -> Iterator[tuple[str, object]]:
    inputs = c.random_inputs()
    yield "model", c.model
    yield "compilation", c
    yield "until a stage", explorer.compile(c.model, until=explorer.Stage.TYPED)
    yield from ((f"snapshot {s.name}", s) for s in c.snapshots)
    yield from ((f"kernel {k.name}", k) for k in c.kernels)
    yield "planned wall", c.planned_wall()
    yield "measured wall", c.measured_wall(inputs)
    yield "schedules", c.schedules()
    yield "memory", c.memory()
    yield "time", c.time(inputs, seconds=0.01)
    yield "profile", c.profile(inputs)
    yield "explanation", c.explain(c.kernels[0].name)
    yield "forecast", explorer.check(c.model)
    yield "device", c.device
    yield "sheet", explorer.device("v100")
    yield "comparison", explorer.compare(c, c, inputs, seconds=0.01)
    yield "crossings", explorer.compile(DATA / "tiny_while.onnx").crossings()
    yield "blocks", explorer.compile(DATA / "tiny_skip.onnx", target="a100").blocks


@pytest.mark.parametrize("shown", [str, repr, pretty], ids=["print", "shell", "notebook"])
def test_public_values_are_summaries_without_addresses(
    bert: Compilation, shown: Callable[[object], str]
) -> None:
    for name, value in _values(bert):
        text = shown(value)
        assert " at 0x" not in text and "object at" not in text, name
        if shown is pretty or not isinstance(value, tuple):
            assert len(text.splitlines()) <= 60, name
        if shown is pretty and not isinstance(value, tuple):
            assert max(map(len, text.splitlines())) <= 2 * WIDE, name


def test_a_compilation_prints_what_became_of_its_model(bert: Compilation) -> None:
    text = str(bert)
    assert text.startswith("tiny_bert on this-cpu, EMITTED\n")
    assert (
        f"{len(bert.model.program.sources)} operators in {len(bert.program.kernel_calls)}" in text
    )
    assert f"{len(bert.planned_wall().bricks)} tasks on" in text and "predicted" in text
    assert repr(bert) == "<Compilation tiny_bert on this-cpu, EMITTED>"


def test_a_program_prints_as_its_text_and_a_notebook_shows_the_beginning(
    bert: Compilation,
) -> None:
    text = str(bert.program)
    assert str(parse_program(text, bert.program.constants)) == text
    assert pretty(bert.program) == shortened(text)
    assert len(pretty(bert.program).splitlines()) <= MOST_LINES + 1
    assert "\n" not in repr(bert.program)


def test_a_sweep_prints_its_table() -> None:
    found = explorer.sweep(DATA / "tiny_skip.onnx", vary={"target": ["v100", "a100"]})
    head, _, columns, rule, *rows = str(found).splitlines()
    assert head == "2 rows, data sheets, predicted"
    assert columns.split()[:3] == ["target", "per", "run"] and set(rule) <= {" ", "─"}
    assert {row.split()[0] for row in rows} == {"v100", "a100"}
    assert repr(found) == "<Sweep tiny_skip: 2 rows over target>"


def test_a_measurement_says_its_interval(bert: Compilation) -> None:
    found = bert.time(bert.random_inputs(), seconds=0.01)
    assert "per run (99 %: " in str(found) and f"n = {found.n:,}" in str(found)


def test_the_inputs_of_a_model_show_their_annotations(bert: Compilation) -> None:
    assert pretty(bert.model.inputs) == "{'x': int64[batch, seq]}"


def test_an_explorer_and_a_view_print_their_tables() -> None:
    c = explorer.compile(DATA / "tiny_skip.onnx", until="planned")
    found, view = widgets.explore(c), widgets.show(c, "memory")
    assert str(found).startswith("predicted ") and "RAMMED" in str(found)
    assert repr(found) == "<House of tiny_skip>" and repr(view) == "<Room of memory>"
    assert str(view) == view.table.text()
