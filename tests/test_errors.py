"""Errors are one sentence, and the same thing in parts."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import explorer
import widgets
from explorer import errors
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.errors import LONGEST_SENTENCE, BadModelFile, IronworksError, ShapeError
from explorer.tuning.settings import apply
from widgets.rooms import gallery

DATA = Path(__file__).parent / "data"

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_one_line_that_the_user_can_be_shown(kind: type[IronworksError]) -> None:
    error = kind("the file model.onnx\nends after 12 bytes")
    assert str(error) == "the file model.onnx ends after 12 bytes"
    assert isinstance(error, IronworksError)
    assert kind.__doc__ and "\n" not in kind.__doc__


def test_an_error_says_its_parts_and_leaves_out_the_empty_ones() -> None:
    error = ShapeError("matmul: inner is 1024 and 768", where="h2", expected=1024, actual=768)
    assert error.fields() == {
        "error": "ShapeError",
        "sentence": "matmul: inner is 1024 and 768",
        "where": "h2",
        "expected": "1024",
        "found": "768",
    }


def test_what_to_try_is_kept() -> None:
    assert ShapeError("no", try_="transpose the weight").fields()["try"] == "transpose the weight"


def test_an_error_keeps_its_parts_when_it_crosses_a_process_border() -> None:
    error = ShapeError("inner differs", where="h2", expected="1024", actual="768", try_="transpose")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is ShapeError
        assert again.fields() == error.fields()


def test_every_error_class_is_listed() -> None:
    classes = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, IronworksError)
    }
    assert classes == set(errors.__all__)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b\x07", "a\\x00b\\x07"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\udcff", "\\udcff"),
        ("größe 层", "größe 层"),
        ("two\r\nlines\u2028", "two lines"),
    ],
)
def test_what_a_name_holds_cannot_steer_a_terminal(name: str, shown: str) -> None:
    error = BadModelFile(f"holds {name}", where=name, expected=name, actual=name, try_=name)
    assert error.sentence == f"holds {shown}"
    assert str(error) == f"holds {shown} (try: {shown})"
    assert {error.where, error.expected, error.actual, error.try_} == {shown}


def test_no_name_makes_an_error_too_long_to_read() -> None:
    error = BadModelFile("holds " + "\x1b" * 10_000_000 + " end", where="w" * 10_000_000)
    assert len(error.sentence) <= errors.LONGEST_SENTENCE
    assert error.sentence.startswith("holds \\x1b") and error.sentence.endswith("end")
    assert len(error.where) <= errors.LONGEST_PART


MISSPELT: dict[str, tuple[Callable[[Compilation], object], str]] = {
    "zoo": (lambda c: explorer.load("zoo:squeeznet"), "did you mean 'squeezenet'?"),
    "zoo, far from any": (lambda c: explorer.load("zoo:zzz"), "tiny_bert, tiny_gpt2"),
    "path": (lambda c: explorer.load(DATA / "tiny_brt.onnx"), "did you mean 'tiny_bert.onnx'"),
    "device": (lambda c: explorer.device("v10"), "did you mean 'v100'?"),
    "step": (lambda c: c.snapshot("rollr"), "did you mean 'roller'"),
    "kernel": (lambda c: c.explain("zzz"), "(there are: "),
    "group": (lambda c: c.with_options(ramer=1), "did you mean 'rammer'?"),
    "stage": (lambda c: explorer.compile(c.model, until="rold"), "did you mean 'ROLLED'?"),
    "view": (lambda c: widgets.data(c, "rofline"), "did you mean 'roofline'?"),
    "view, far from any": (lambda c: widgets.data(c, "zzz"), "(there are: stages, dataflow"),
    "chart": (lambda c: widgets.figure(c, "memry"), "did you mean 'memory'?"),
    "runtime": (
        lambda c: explorer.race(c.model, {}, against=("onxruntime",)),
        "did you mean 'onnxruntime'?",
    ),
}


@pytest.mark.parametrize("what", MISSPELT)
def test_a_misspelt_name_is_answered_with_those_that_could_be_meant(what: str) -> None:
    ask, hint = MISSPELT[what]
    c = explorer.compile(DATA / "tiny_skip.onnx", target="v100")
    with pytest.raises(IronworksError) as found:
        ask(c)
    assert hint in str(found.value)
    assert len(str(found.value)) < 2 * LONGEST_SENTENCE


def test_an_example_is_no_list_of_what_there_is() -> None:
    with pytest.raises(IronworksError, match=r"\(such as roller.top_k=10\)$"):
        apply(Options(), ["roller"])
    with pytest.raises(IronworksError, match=r"\(such as @explorer.compiler_pass\("):
        explorer.compiler_pass("", after="clean up")(lambda program: program)


def test_a_view_is_found_by_its_title_too() -> None:
    assert gallery.find_picture("tile curve") is gallery.find_picture("curve")


def test_a_notebook_shows_an_error_in_a_sentence_and_the_line_of_the_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("import explorer\n\nc = explorer.load('zoo:squeeznet')")
        out = capsys.readouterr().out
        shell.run_cell("@explorer.compiler_pass('mine', after='clean up')\ndef mine(p): 1 / 0")
        shell.run_cell(f"explorer.compile({str(DATA / 'tiny_skip.onnx')!r})")
        caused = capsys.readouterr().out
    finally:
        explorer.forget_pass("mine")
        InteractiveShell.clear_instance()
    assert out.splitlines() == [
        "BadOption: the zoo has no model named 'squeeznet'; did you mean 'squeezenet'?",
        "  in line 3 of the cell: c = explorer.load('zoo:squeeznet')",
    ]
    assert caused.startswith("BadPass: the pass 'mine' failed") and "Traceback" not in caused
    assert "ZeroDivisionError" in caused and "in line 2 of the cell: def mine(p): 1 / 0" in caused
