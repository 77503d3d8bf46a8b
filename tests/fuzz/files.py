"""Hostile files: bytes, fields, sizes, nesting and external data, each a function of a seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

from tests.strategies.onnx.graphs import case

DATA = Path(__file__).parents[1] / "data"
SMALL_MODELS = ("tiny_skip", "tiny_while", "tiny_lstm")
ODD_NUMBERS = (0, 1, -1, 2, 3, 7, 64, 65, 127, 128, 255, 1000, 2**15, 2**31 - 1, 2**31, 2**32,
               2**40, 2**62, 2**63 - 1, -2, -(2**31), -(2**63))  # fmt: skip
ODD_TEXTS = (
    "", "x", "\0", "a\0b", "\x1b[31mred", "../w", "/etc/passwd", "(a+)+$", "%s%n{0}", "v" * 5000,
    "ünï\u202ecode", "\n\r\t", "float32", "batch", "1", "-1", "__class__", "<script>", "a b", "'",
)  # fmt: skip
ODD_REALS = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, 3e38, -1.0, 0.5)
Rng = np.random.Generator
Attack = Callable[[Rng, Path], Path]


def hostile(seed: int, folder: Path) -> Path:
    """A file, and what lies beside it."""
    rng = np.random.default_rng((seed, 3))
    attack = ATTACKS[int(rng.integers(len(ATTACKS)))]
    return attack(rng, folder)


def model_of(rng: Rng) -> onnx.ModelProto:
    """A sound model: a drawn one, or a small real one."""
    if rng.random() < 0.2:
        return onnx.load(DATA / f"{rng.choice(SMALL_MODELS)}.onnx")
    return case(int(rng.integers(1 << 30))).model


def written(content: bytes, folder: Path) -> Path:
    path = folder / "hostile.onnx"
    path.write_bytes(content)
    return path


def damaged_bytes(rng: Rng, folder: Path) -> Path:
    """Bytes flipped, put in, left out, repeated, or broken off."""
    content = bytearray(model_of(rng).SerializeToString())
    for _ in range(int(rng.integers(1, 9))):
        at, n = int(rng.integers(len(content) + 1)), int(rng.integers(1, 20))
        match int(rng.integers(5)):
            case 0:
                content[at : at + 1] = bytes([int(rng.integers(256))])
            case 1:
                content[at:at] = rng.bytes(n)
            case 2:
                del content[at : at + n]
            case 3:
                content[at:at] = content[at : at + 30 * n]
            case _:
                content = content[: max(at, len(content) // 2)]
    return written(bytes(content), folder)


def noise(rng: Rng, folder: Path) -> Path:
    """What is no model at all, or only begins as one."""
    head = rng.choice([b"", b"\x08\x09", b"\x3a\xff\xff\xff\xff\x0f", b"\x0b", b"PK\x03\x04"])
    return written(bytes(head) + rng.bytes(int(rng.integers(0, 3000))), folder)


def _messages(root: Message) -> list[Message]:
    """Every message within one, itself first."""
    found = [root]
    for field, value in root.ListFields():
        if field.message_type is not None:
            inner = value if _repeated(field) else [value]
            for message in list(inner)[:200]:
                found += _messages(message)
    return found


def _repeated(field: FieldDescriptor) -> bool:
    return bool(getattr(field, "is_repeated", False))


def twisted_fields(rng: Rng, folder: Path) -> Path:
    """A few fields changed to what they could hold but should not."""
    model = model_of(rng)
    for _ in range(int(rng.integers(1, 5))):
        _twist(rng, _one(rng, _messages(model)))
    return written(model.SerializeToString(), folder)


def _one(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _twist(rng: Rng, message: Message) -> None:
    known = [f for f, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
    field = _one(rng, known if rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    now = getattr(message, field.name)
    try:
        if _repeated(field):
            _twist_row(rng, field, now)
        elif field.message_type is not None:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _odd(rng, field))
    except (TypeError, ValueError):  # a number that its field cannot hold
        message.ClearField(field.name)


def _twist_row(rng: Rng, field: FieldDescriptor, row: Any) -> None:
    choice = int(rng.integers(4))
    if len(row) and choice == 0:
        del row[int(rng.integers(len(row)))]
    elif field.message_type is not None:
        if len(row):
            row.add().CopyFrom(_one(rng, row))
        else:
            row.add()
    elif len(row) and choice == 1:
        row[int(rng.integers(len(row)))] = _odd(rng, field)
    elif choice == 2:
        row.extend([_odd(rng, field)] * int(_one(rng, (1, 2, 70))))
    else:
        row.append(_odd(rng, field))


def _odd(rng: Rng, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = _one(rng, ODD_TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return _one(rng, ODD_REALS)
        case FieldDescriptor.CPPTYPE_ENUM:
            return int(rng.integers(0, 30))
        case _:
            return _one(rng, ODD_NUMBERS)


def _elements(tensor: TensorProto) -> np.ndarray | None:
    """What a tensor holds; None where an earlier change has made it unreadable."""
    try:
        return np.array(numpy_helper.to_array(tensor))
    except ValueError:
        return None


def odd_sizes(rng: Rng, folder: Path) -> Path:
    """Extents, and whole numbers that say how large results are, changed."""
    model = model_of(rng)
    graph = model.graph
    whole = [i for i in graph.initializer if i.data_type in (TensorProto.INT64, TensorProto.INT32)]
    for _ in range(int(rng.integers(1, 3))):
        choice = int(rng.integers(4))
        if choice < 2 and whole:
            tensor = _one(rng, whole)
            array = _elements(tensor)
            if array is not None and array.size:
                limit = np.iinfo(array.dtype)
                number = min(max(_one(rng, ODD_NUMBERS), limit.min), limit.max)
                array.reshape(-1)[int(rng.integers(array.size))] = number
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        elif choice == 2 and graph.input:
            dims = _one(rng, graph.input).type.tensor_type.shape.dim
            if len(dims):
                _one(rng, dims).dim_value = _one(rng, ODD_NUMBERS)
        elif graph.initializer:
            tensor = _one(rng, graph.initializer)
            if len(tensor.dims):
                tensor.dims[int(rng.integers(len(tensor.dims)))] = _one(rng, ODD_NUMBERS)
    return written(model.SerializeToString(), folder)


def huge_result(rng: Rng, folder: Path) -> Path:
    """One operator whose small arguments ask for much."""
    n = int(_one(rng, (1 << 12, 1 << 16, 1 << 20, 1 << 31, 1 << 40, 1 << 62)))
    wide = np.array([n, int(_one(rng, (1, 2, n)))], np.int64)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    op = str(rng.choice(("Expand", "Tile", "ConstantOfShape", "Pad", "Range", "Resize", "OneHot",
                         "EyeLike", "Reshape", "ConvTranspose")))  # fmt: skip
    weights = {"s": wide}
    attributes: dict[str, Any] = {}
    args = ["x", "s"]
    if op == "ConstantOfShape":
        args = ["s"]
    elif op == "Pad":
        weights["s"] = np.array([n, 0, 0, n], np.int64)
    elif op == "Range":
        weights = {"s": np.array(0), "t": np.array(n), "d": np.array(1)}
        args = ["s", "t", "d"]
    elif op == "Resize":
        args = ["x", "", "", "s"]
    elif op == "OneHot":
        weights = {"i": np.arange(4), "s": np.array(n), "v": np.array([0.0, 1.0], np.float32)}
        args = ["i", "s", "v"]
    elif op == "EyeLike":
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, n])
        args = ["x"]
    elif op == "ConvTranspose":
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2])
        weights["s"] = np.ones((1, 1, 2, 2), np.float32)
        attributes = {"strides": [min(n, 1 << 62)] * 2}
    nodes = [helper.make_node(op, args, ["y"], **attributes)]
    if rng.random() < 0.4:
        nodes.append(helper.make_node("Identity", ["y"], ["z"]))
    graph = helper.make_graph(
        nodes, "huge", [x], [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [numpy_helper.from_array(a, k) for k, a in weights.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return written(made.SerializeToString(), folder)


def doubled(rng: Rng, folder: Path) -> Path:
    """A constant, or an input, that is joined with itself again and again."""
    times = int(rng.integers(5, 45))
    op = str(rng.choice(("Concat", "Add", "Mul")))
    more = {"axis": 0} if op == "Concat" else {}
    nodes = [helper.make_node(op, [f"v{i}"] * 2, [f"v{i + 1}"], **more) for i in range(times)]
    constant = rng.random() < 0.6
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    if not constant:
        inputs.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, [4]))
    nodes.append(helper.make_node("ReduceMax", [f"v{times}"], ["y"], keepdims=0))
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "v0")] if constant else []
    graph = helper.make_graph(nodes, "doubled", inputs, [onnx.ValueInfoProto(name="y")], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return written(made.SerializeToString(), folder)


def nested(rng: Rng, folder: Path) -> Path:
    """If or Loop within If or Loop, many deep, or many nodes and operands in a row."""
    depth = int(_one(rng, (2, 5, 12, 20, 30)))
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])], "inner", [], [onnx.ValueInfoProto(name="r")]
    )
    for n in range(depth):
        if body.ByteSize() > 1 << 20:
            break
        if rng.random() < 0.7:
            node = helper.make_node("If", ["c"], [f"y{n}"], then_branch=body, else_branch=_plain(n))
            body = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name=f"y{n}")])
        else:
            body = _looped(body, n)
    return written(_model_around(body).SerializeToString(), folder)


def _plain(n: int) -> onnx.GraphProto:
    node = helper.make_node("Neg", ["x"], [f"e{n}"])
    return helper.make_graph([node], "e", [], [onnx.ValueInfoProto(name=f"e{n}")])


def _looped(inner: onnx.GraphProto, n: int) -> onnx.GraphProto:
    """A graph with a loop of three trips, the body of which holds the inner one's nodes."""
    last = inner.output[0].name
    kinds = ((f"i{n}", TensorProto.INT64, []), (f"c{n}", TensorProto.BOOL, []),
             (f"s{n}", TensorProto.FLOAT, [2, 3]))  # fmt: skip
    body = helper.make_graph(
        [*inner.node, helper.make_node("Identity", [f"c{n}"], [f"k{n}"]),
         helper.make_node("Add", [last, f"s{n}"], [f"t{n}"])],
        "body",
        [helper.make_tensor_value_info(*kind) for kind in kinds],
        [onnx.ValueInfoProto(name=f"k{n}"), onnx.ValueInfoProto(name=f"t{n}")],
    )  # fmt: skip
    node = helper.make_node("Loop", ["three", "c", "x"], [f"y{n}"], body=body)
    return helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name=f"y{n}")])


def _model_around(body: onnx.GraphProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        body.node,
        "nested",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
         helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        body.output,
        [numpy_helper.from_array(np.array(3), "three")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def crowded(rng: Rng, folder: Path) -> Path:
    """Very many operands, inputs, outputs, symbols, or nodes in a row."""
    many = int(_one(rng, (10, 100, 700, 3000)))
    kind = int(rng.integers(4))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    if kind == 0:
        op = str(rng.choice(("Sum", "Max", "Concat")))
        more = {"axis": 0} if op == "Concat" else {}
        nodes = [helper.make_node(op, ["x"] * many, ["y"], **more)]
    elif kind == 1:
        inputs = [
            helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [2]) for n in range(many)
        ]
        nodes = [helper.make_node("Sum", [i.name for i in inputs], ["y"])]
    elif kind == 2:
        many = min(many, 700)
        nodes = [helper.make_node("Tanh", [f"v{n}" if n else "x"], [f"v{n + 1}"])
                 for n in range(many)]  # fmt: skip
        nodes.append(helper.make_node("Neg", [f"v{many}"], ["y"]))
    else:
        many = min(many, 700)
        symbols = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [f"s{n}"])
                   for n in range(many)]  # fmt: skip
        inputs = symbols
        nodes = [helper.make_node("Concat", [i.name for i in inputs], ["y"], axis=0)]
    graph = helper.make_graph(nodes, "crowded", inputs, [onnx.ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return written(made.SerializeToString(), folder)


def elsewhere(rng: Rng, folder: Path) -> Path:
    """Weights in a file beside: of odd names, offsets and lengths, links, pipes, holes."""
    model = model_of(rng)
    for tensor in list(model.graph.initializer)[:3]:
        raw = numpy_helper.to_array(tensor).tobytes()
        location = str(_one(rng, ("w.bin", "w.bin", "w.bin", "link", "pipe", "folder", *ODD_TEXTS)))
        tensor.ClearField("raw_data")
        for field in ("float_data", "int64_data", "int32_data", "double_data"):
            tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        del tensor.external_data[:]
        entries: dict[str, object] = {"location": location}
        if rng.random() < 0.6:
            entries["offset"] = _one(rng, (0, 0, 4096, *ODD_NUMBERS, *ODD_TEXTS))
        if rng.random() < 0.6:
            entries["length"] = _one(rng, (len(raw), len(raw), *ODD_NUMBERS, *ODD_TEXTS))
        for key, entry in entries.items():
            tensor.external_data.add(key=key, value=str(entry))
        (folder / "w.bin").write_bytes(raw + raw)
    _surroundings(rng, folder)
    return written(model.SerializeToString(), folder)


def _surroundings(rng: Rng, folder: Path) -> None:
    (folder / "folder").mkdir(exist_ok=True)
    os.mkfifo(folder / "pipe")
    target = _one(rng, ("w.bin", "link", "/etc/hostname", "nowhere", "pipe"))
    (folder / "link").symlink_to(target)
    if rng.random() < 0.2 and (folder / "w.bin").exists():
        os.truncate(folder / "w.bin", int(_one(rng, (0, 1, 7, 1 << 34))))


def odd_path(rng: Rng, folder: Path) -> Path:
    """What is no plain file: a folder, a pipe, a device, a link to itself, nothing."""
    name = str(_one(rng, ("folder", "pipe", "loop", "nowhere", "", "a" * 300, "\x1b[31m.onnx")))
    path = folder / (name or "empty.onnx")
    if name == "folder":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "loop":
        path.symlink_to(path)
    elif not name:
        path.write_bytes(b"")
    return path


def swollen(rng: Rng, folder: Path) -> Path:
    """A sound model with megabytes of what nobody reads: comments, names, unknown fields."""
    model = model_of(rng)
    megabytes = int(_one(rng, (1, 5, 60)))
    kind = int(rng.integers(4))
    if kind == 0:
        model.doc_string = "d" * (megabytes << 20)
    elif kind == 1:
        model.graph.node[0].doc_string = "d" * (megabytes << 20)
    elif kind == 2:
        model.graph.node[0].name = "n" * (megabytes << 18)
    content = model.SerializeToString()
    if kind == 3:  # field 999, a row of bytes
        size = megabytes << 20
        content += bytes([0xBA, 0x3E]) + _varint(size) + bytes(size)
    return written(content, folder)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


ATTACKS: tuple[Attack, ...] = (
    damaged_bytes, damaged_bytes, twisted_fields, twisted_fields, twisted_fields, twisted_fields,
    odd_sizes, odd_sizes, odd_sizes, huge_result, doubled, nested, crowded, elsewhere, elsewhere,
    noise, odd_path, swollen,
)  # fmt: skip
