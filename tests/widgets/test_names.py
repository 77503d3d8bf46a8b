"""One name for an operator, and one for a kernel, wherever a reader meets them."""

from pathlib import Path

import pytest

import explorer
from explorer.compilation.operators import Operator, call_family, call_labels, labels, operators
from explorer.ir.program import SourceOp
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
        ("/x", "Add"),
        ("/y/x", "Add"),
    )
    assert list(labels([SourceOp(*n) for n in names]).values()) == [
        "Conv 7", "Clip 4_2", "BatchNorm 8", "a/q/MatMul", "b/q/MatMul", "Softmax", "relu",
        "model.py:12 exp", "/x", "y/x",
    ]  # fmt: skip


def test_the_family_of_a_call_is_the_same_in_any_order_of_its_operators() -> None:
    c = explorer.compile(DATA / "tiny_skip.onnx", until="planned")
    call = next(b for b in c.program.kernel_calls if "relu" in b.name)
    both = [Operator("a", "Reshape", "a", "layout"), Operator("b", "Relu", "b", "elementwise")]
    assert call_family(call, both) == call_family(call, both[::-1]) == "elementwise"


@pytest.mark.few(3)
@pytest.mark.parametrize("model", ["tiny_resnet18", "tiny_llama", "tiny_while", "tiny_lstm"])
def test_no_two_operators_and_no_two_calls_have_one_label(model: str) -> None:
    c = explorer.compile(DATA / f"{model}.onnx", until="planned")
    known = operators(c.model.program, c.program)
    assert len({o.label for o in known}) == len(known)
    found = call_labels(known, c.program)
    assert len(set(found.values())) == len(found) > 0


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


def test_other_names_of_a_kernel_are_told() -> None:
    session = Session(explorer.compile(DATA / "tiny_resnet18.onnx", until="planned"))
    told = session.house.other_names("relu_1")
    assert told.startswith("Conv_92 (node_Conv_92), relu_1 (node_relu_1); relu_1 in the program")
    stations = session.answer("operator", {"op": session.house.order["node_relu_1"]})["stations"]
    by_name = {name: (value, more) for name, value, _, more in stations}
    assert by_name["source"] == ("Relu", "node_relu_1 in the file")
    assert by_name["kernel"] == ("Conv_92", told)
