"""One name for an operator, and one for a kernel, wherever a reader meets them."""

from pathlib import Path

import pytest

import explorer
from explorer.compiler.operators import (
    Operator,
    call_family,
    call_labels,
    labels,
    operators,
    value_labels,
)
from explorer.ir.program import SourceOp
from explorer.ir.stage import Stage
from widgets.draw.svg import fit, text_width
from widgets.rooms import gallery
from widgets.session.session import Session

DATA = Path(__file__).parents[1] / "data"
OF_KERNELS = ("kernel", "call", "group", "rOperator", "buffer", "written by")


def test_a_label_is_as_short_as_tells_an_operator_from_all_others() -> None:
    names = (
        ("n7", "Conv"),
        ("n4_2", "Clip"),
        ("n8", "BatchNormalization"),
        ("/a/q/MatMul", "MatMul"),
        ("/b/q/MatMul", "MatMul"),
        ("/b/Softmax", "Softmax"),
        ("node_relu", "Relu"),
        ("model.py:12 exp", "exp"),
        ("model.py:12 add", "add"),
        ("model.py:13 add", "add"),
        ("a.py:7 mul.2", "mul"),
        ("b.py:7 mul.2", "mul"),
        ("odd\x00name", "Neg"),
        ("/x", "Add"),
        ("/y/x", "Add"),
    )
    assert list(labels([SourceOp(*n) for n in names]).values()) == [
        "Conv 7", "Clip 4_2", "BatchNorm 8", "a/q/MatMul", "b/q/MatMul", "Softmax", "relu",
        "exp", "add:12", "add:13", "a.py:7 mul.2", "b.py:7 mul.2", "odd\\x00name", "/x", "y/x",
    ]  # fmt: skip


def test_the_family_of_a_call_is_the_same_in_any_order_of_its_operators() -> None:
    c = explorer.compile(DATA / "tiny_skip.onnx", until="planned")
    call = next(b for b in c.program.kernel_calls if "relu" in b.name)
    both = [Operator("a", "Reshape", "a", "layout"), Operator("b", "Relu", "b", "elementwise")]
    assert call_family(call, both) == call_family(call, both[::-1]) == "elementwise"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "model", ["tiny_resnet18", "tiny_llama", "tiny_while", "tiny_lstm", "zoo:small_nasrnn"]
)
def test_no_two_operators_no_two_calls_and_no_two_values_have_one_label(model: str) -> None:
    path = model if ":" in model else DATA / f"{model}.onnx"
    c = explorer.compile(path, until="planned")
    known = operators(c.model.program, c.program)
    assert len({o.label for o in known}) == len(known)
    found = call_labels(known, c.program)
    assert len(set(found.values())) == len(found) > 0
    before = next(s.before for s in c.snapshots if s.stage == Stage.WELDED)
    values = value_labels(known, before)
    several = {v.name for _, b in before.bindings() if len(b.vars) > 1 for v in b.vars}
    alone = [label for name, label in values.items() if name not in several]
    assert len(set(alone)) == len(alone)


def test_calls_of_one_operator_are_told_apart_by_how_many_more_they_compute() -> None:
    c = explorer.compile("zoo:small_nasrnn", until="planned")
    found = call_labels(operators(c.model.program, c.program), c.program)
    fused = [name for name in found.values() if name.startswith("matmul + ")]
    assert len(fused) == 2 and not any("(2)" in name for name in found.values())


def test_a_path_that_is_too_long_loses_its_first_parts() -> None:
    name = "/encoder/layer.0/attention/query/MatMul"
    assert fit(name, text_width("…/query/MatMul", 13), 13) == "…/query/MatMul"
    assert fit("flow.py:57 matmul (2)", text_width("…matmul (2)", 13), 13) == "…matmul (2)"
    assert fit("a sentence is cut", 60, 13).count("…") == 1


def test_a_kernel_is_called_after_its_heaviest_operator_and_its_copies_by_number() -> None:
    c = explorer.compile(DATA / "tiny_resnet18.onnx", until="planned")
    known = operators(c.model.program, c.program)
    found = call_labels(known, c.program)
    binding = next(o for o in known if o.name == "node_relu_1").calls[0]
    assert found[binding] == "Conv_92"  # the relu stands in the convolution's kernel
    again = c.program.main.body + c.program.main.body[:1]
    twice = call_labels(known, c.program.with_body(again))
    assert len(twice) == len(found)


def test_every_room_calls_a_kernel_by_the_same_name() -> None:
    session = Session(explorer.compile(DATA / "tiny_resnet18.onnx"))
    session.run_once()
    house, met = session.house, set()
    known = {*house.labels.values(), *(o.label for o in house.operators)}
    for picture in gallery.PICTURES:
        if picture.name in ("shapes", "codegen"):
            continue
        _, _, table = picture.draw(session, "node_Conv_92")
        for n, column in enumerate(table.columns):
            if column in OF_KERNELS and picture.name not in ("fusion", "calls"):
                found = {str(row[n]) for row in table.rows} - {""}  # nothing writes a weight
                assert found <= known, (picture.name, column, found - known)
                met.add(picture.name)
    assert met >= {"groups", "layout", "rammer", "rtasks", "errors", "memory", "kernels"}


def test_a_program_s_text_says_what_other_views_call_its_calls() -> None:
    session = Session(explorer.compile(DATA / "tiny_resnet18.onnx", until="planned"))
    house = session.house
    last = len(session.now.compiled.snapshots) - 1
    lines = session.answer("program", {"step": last})["lines"]
    calls = [text for _, _, text, family, *_ in lines if family and text[2] != " "]
    assert len(calls) == len(house.calls)
    for text, call in zip(calls, house.calls, strict=True):
        assert house.heaviest(call.ops) in text


def test_a_picture_is_found_by_its_name_before_any_title() -> None:
    assert all(gallery.find_picture(p.name) is p for p in gallery.PICTURES)
    assert gallery.find_picture("Welder's fused pipeline").name == "welder"


def test_other_names_of_a_kernel_are_told() -> None:
    session = Session(explorer.compile(DATA / "tiny_resnet18.onnx", until="planned"))
    told = session.house.other_names("relu_1")
    assert told.startswith("Conv_92 (node_Conv_92), relu_1 (node_relu_1); relu_1 in the program")
    stations = session.answer("operator", {"op": session.house.order["node_relu_1"]})["stations"]
    by_name = {name: (value, more) for name, value, _, more in stations}
    assert by_name["source"] == ("Relu", "node_relu_1 in the file")
    assert by_name["kernel"] == ("Conv_92", told)
