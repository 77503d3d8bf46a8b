"""Loops that stack what each trip makes, against onnxruntime and the reference interpreter."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.wall import Wall
from explorer.ir.text.program_text import parse_program, print_program
from explorer.runtime.device_program import instructions as isa
from tests.examples import examples
from tests.frontends.models import model, saved, value
from tests.runtime.test_frames import Both, floats, graph

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": INT64}
node = helper.make_node


def in_one_launch(compiled: Compilation, inputs: dict[str, np.ndarray]) -> None:
    """Nothing of a run goes back to Python."""
    with explorer.counters.delta() as did:
        compiled.run(inputs)
    counts = did.counts
    assert (counts.regions_run, counts.interpreted_kernels, counts.host_reads) == (0, 0, 0)
    assert counts.replays + counts.captures == 1
    assert len(compiled.executable._bound(inputs, {}).launches) == 1


class Scan:
    """A random Scan, its axes and directions, and perhaps a Scan in its body."""

    def __init__(self, seed: int) -> None:
        self.random = rnd = Random(seed)
        self.kind = rnd.choice(sorted(KINDS))
        self.row = tuple(rnd.choice([1, 2, 3, 5, 17]) for _ in range(rnd.randint(0, 2)))
        self.symbolic = rnd.random() < 0.5
        self.names = iter(f"v{n}" for n in range(1000))
        states, inputs, outputs = rnd.randint(0, 2), rnd.randint(1, 3), rnd.randint(1, 3)
        rank = len(self.row) + 1
        self.axes = [rnd.randrange(rank) for _ in range(inputs)]
        out_axes = [rnd.randrange(rank) for _ in range(outputs)]
        names = [f"x{n}" for n in range(inputs)]
        nodes, made, rows = self.body([f"s{n}" for n in range(states)], names, outputs, 1)
        body = helper.make_graph(
            nodes,
            "body",
            [self.value(n) for n in (*(f"s{n}" for n in range(states)), *names)],
            [self.value(n) for n in (*made, *rows)],
        )
        self.states, self.inputs = [f"i{n}" for n in range(states)], [f"a{n}" for n in names]
        results = [f"y{n}" for n in range(states + outputs)]
        self.node = node(
            "Scan",
            [*self.states, *self.inputs],
            results,
            body=body,
            num_scan_inputs=inputs,
            scan_input_axes=self.axes,
            scan_input_directions=[rnd.randint(0, 1) for _ in range(inputs)],
            scan_output_axes=out_axes,
            scan_output_directions=[rnd.randint(0, 1) for _ in range(outputs)],
        )
        given = [self.value(n) for n in self.states]
        given += [self.value(n, self.whole("t", a)) for n, a in zip(self.inputs, self.axes)]
        self.trips = rnd.choice([1, 2, 5, 7])
        if not self.symbolic:
            for made_of, axis in zip(given[states:], self.axes, strict=True):
                made_of.type.tensor_type.shape.dim[axis].dim_value = self.trips
        self.model = model([self.node], given, results)

    def value(self, name: str, shape: Any = None) -> onnx.ValueInfoProto:
        shape = self.row if shape is None else shape
        return helper.make_tensor_value_info(name, KINDS[self.kind], list(shape))

    def whole(self, extent: Any, axis: int) -> list[Any]:
        return [*self.row[:axis], extent, *self.row[axis:]]

    def body(
        self, states: list[str], rows: list[str], outputs: int, depth: int
    ) -> tuple[list[Any], list[str], list[str]]:
        """Nodes, the states after, and what is stacked: each a value of the row's shape."""
        rnd, known, nodes = self.random, [*states, *rows], []
        for _ in range(rnd.randint(1, 4)):
            if depth and self.row and rnd.random() < 0.25:
                found, more = self.inner(rnd.choice(known))
                nodes += more
            else:
                found = next(self.names)
                op = rnd.choice(["Add", "Sub", "Neg", "Identity", "Max"])
                count = 2 if op in ("Add", "Sub", "Max") else 1
                nodes.append(node(op, [rnd.choice(known) for _ in range(count)], [found]))
            known.append(found)
        made = []
        for _ in range(len(states) + outputs):  # a graph's outputs have names of their own
            made.append(next(self.names))
            nodes.append(node("Identity", [rnd.choice(known)], [made[-1]]))
        return nodes, made[: len(states)], made[len(states) :]

    def inner(self, of: str) -> tuple[str, list[Any]]:
        """A Scan over the rows of a value that gives its running sums, and their sum."""
        total, row, after, out = (next(self.names) for _ in range(4))
        rest = self.row[1:]
        nodes = [node("Add", [total, row], [after]), node("Identity", [after], [out])]
        ins = [self.value(total, rest), self.value(row, rest)]
        body = helper.make_graph(
            nodes, "inner", ins, [self.value(after, rest), self.value(out, rest)]
        )
        first, last, made = (next(self.names) for _ in range(3))
        zero = np.array([0])
        begin = [
            node("Constant", [], [f"{first}.0"], value=onnx.numpy_helper.from_array(zero)),
            node("ReduceMax", [of, f"{first}.0"], [first], keepdims=0),
        ]
        turned = self.random.randint(0, 1)
        scan = node(
            "Scan",
            [first, of],
            [last, made],
            body=body,
            num_scan_inputs=1,
            scan_input_directions=[turned],
        )
        return made, [*begin, scan]

    def feeds(self, trips: int, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = {n: self.row for n in self.states}
        shapes |= {
            n: tuple(self.whole(trips, a)) for n, a in zip(self.inputs, self.axes, strict=True)
        }
        return {n: rng.integers(-9, 9, s).astype(self.kind) for n, s in shapes.items()}


@settings(max_examples=examples(40, few=5), deadline=None)
@given(st.integers(0, 2**32))
def test_a_scan_of_any_body_axes_and_directions_is_as_onnxruntime_says(seed: int) -> None:
    scan = Scan(seed)
    session = onnxruntime.InferenceSession(scan.model.SerializeToString())
    with TemporaryDirectory() as folder:
        path = saved(scan.model, Path(folder))
        compiled = explorer.compile(explorer.load(path, {"t": (0, 64)} if scan.symbolic else None))
    for trips in (scan.trips, 1, 6, 0) if scan.symbolic else (scan.trips, scan.trips):
        feeds = scan.feeds(trips, seed)
        by_reference = list(explorer.evaluate(compiled.program, feeds).values())
        # onnxruntime slices no empty tensor
        wanted = session.run(None, feeds) if trips else by_reference
        for found in (list(compiled.run(feeds).values()), by_reference):
            for ours, right in zip(found, wanted, strict=True):
                assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
                np.testing.assert_allclose(ours, right, rtol=1e-6)
        in_one_launch(compiled, feeds)


def rnn(steps: Any = 9, width: int = 5) -> onnx.ModelProto:
    """h' = tanh(x W + h U), every h stacked."""
    nodes = [
        node("MatMul", ["x", "W"], ["a"]),
        node("MatMul", ["h", "U"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("Tanh", ["c"], ["after"]),
        node("Identity", ["after"], ["y"]),
    ]
    ins, outs = ("h", "x"), ("after", "y")
    row = [1, width]
    body = helper.make_graph(
        nodes, "step", [value(n, row) for n in ins], [value(n, row) for n in outs]
    )
    weights = {"W": floats(width, width) / 2, "U": floats(width, width)[::-1] / 2}
    scan = node("Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)
    inputs = [value("h0", row), value("xs", [steps, *row])]
    return model([scan], inputs, ["last", "ys"], weights)


def test_a_recurrent_scan_is_one_launch_and_copies_its_state_alone(tmp_path: Path) -> None:
    both = Both(rnn(), tmp_path)
    feeds = {"h0": floats(1, 5), "xs": floats(9, 1, 5)}
    both.agree(**feeds)
    in_one_launch(both.compiled, feeds)
    compiled = both.compiled.with_options(grinder=Grinder("device"))
    (launch,) = compiled.executable._bound(feeds, {}).launches
    operations = [int(row[0]) for row in launch.rows[0]]
    assert operations.count(isa.COPY) == 2  # the state before the first trip, and after each
    assert operations.count(isa.POINT) == 1
    tree = compiled.program.decisions.tasks
    assert tree is not None
    assert [t.level for t in (tree, *tree.parts)] == ["device", "device"]


def test_memory_of_a_scan_is_planned_from_its_symbolic_count(tmp_path: Path) -> None:
    nodes = [*rnn("t").graph.node, node("Exp", ["ys"], ["z"]), node("Neg", ["z"], ["w"])]
    made = rnn("t")
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.output.append(onnx.ValueInfoProto(name="w"))
    del made.graph.output[1]
    both = Both(made, tmp_path)
    for t in (1, 2, 9, 100):
        both.agree(h0=floats(1, 5), xs=floats(t, 1, 5))
    rows = {b.name: b for t in (3, 300) for b in both.compiled.memory({"t": t}).buffers}
    assert "t" in (rows["ys"].formula or "") and rows["ys"].bytes == 300 * 5 * 4


def counted(nodes: list[Any], state: list[Any], outputs: list[str], **constants: Any) -> Any:
    """The body of a Loop that goes on."""
    inputs = [value("i", [], INT64), value("c", [], BOOL), *state]
    return graph(
        [node("Identity", ["c"], ["more"]), *nodes], inputs, ["more", *outputs], **constants
    )


@pytest.mark.parametrize("rows", [4, "n"])
def test_a_row_of_what_the_body_writes_over_is_read_before_that(tmp_path: Path, rows: Any) -> None:
    """A cache as the state: row i is read and stacked, and row i + 1 written from it."""
    nodes = [
        node("Gather", ["cache", "i"], ["row"], axis=0),
        node("Add", ["row", "one"], ["next"]),
        node("Add", ["i", "step"], ["j"]),
        node("Unsqueeze", ["next", "zero"], ["u"]),
        node("Reshape", ["j", "shape"], ["at"]),
        node("ScatterND", ["cache", "at", "u"], ["after"]),
        node("Identity", ["row"], ["y"]),
    ]
    constants = {"one": np.float32(1), "step": np.array(1), "zero": np.array([0])}
    constants["shape"] = np.array([1, 1])
    body = counted(nodes, [value("cache", [rows, 3])], ["after", "y"], **constants)
    made = model(
        [node("Loop", ["trip", "", "x"], ["last", "ys"], body=body)],
        [value("x", [rows, 3])],
        ["last", "ys"],
        {"trip": np.array(3)},
    )
    both = Both(made, tmp_path)
    both.agree(x=floats(4, 3))
    in_one_launch(both.compiled, {"x": floats(4, 3)})


def test_the_count_a_state_and_what_is_around_are_stacked_as_they_are(tmp_path: Path) -> None:
    nodes = [
        node("Add", ["s", "s"], ["t"]),
        *(node("Identity", [a], [b]) for a, b in (("i", "y0"), ("s", "y1"), ("w", "y2"))),
        node("Identity", ["t"], ["y3"]),
        node("Identity", ["t"], ["y4"]),
        node("Cast", ["c"], ["y5"], to=BOOL),
    ]
    names = [f"y{n}" for n in range(6)]
    body = counted(nodes, [value("s", [3])], ["t", *names], w=floats(2, 2))
    made = model(
        [node("Loop", ["trip", "", "x"], ["last", *(f"z{n}" for n in range(6))], body=body)],
        [value("x", [3])],
        ["last", *(f"z{n}" for n in range(6))],
        {"trip": np.array(4)},
    )
    both = Both(made, tmp_path)
    both.agree(x=floats(3))
    in_one_launch(both.compiled, {"x": floats(3)})


@pytest.mark.parametrize("trips", [0, -3])
def test_a_count_of_none_stacks_no_row(tmp_path: Path, trips: int) -> None:
    body = counted(
        [node("Add", ["s", "s"], ["t"]), node("Identity", ["t"], ["y"])],
        [value("s", [3])],
        ["t", "y"],
    )
    made = model(
        [node("Loop", ["trip", "", "x"], ["last", "ys"], body=body)],
        [value("x", [3])],
        ["last", "ys"],
        {"trip": np.array(trips)},
    )
    compiled = explorer.compile(saved(made, tmp_path))
    found = compiled.run({"x": floats(3)})
    np.testing.assert_array_equal(found["last"], floats(3))
    assert found["ys"].shape == (0, 3)
    in_one_launch(compiled, {"x": floats(3)})


@pytest.mark.parametrize("shape", [[], [1]])
def test_a_loop_that_an_input_counts_is_one_launch_behind_a_look_at_it(
    tmp_path: Path, shape: list[int]
) -> None:
    body = counted(
        [
            node("Add", ["s", "x"], ["t"]),
            node("Identity", ["t"], ["y"]),
            node("Identity", ["i"], ["z"]),
        ],
        [value("s", [3])],
        ["t", "y", "z"],
    )
    made = model(
        [
            node("Loop", ["trip", "", "x"], ["last", "ys", "zs"], body=body),
            node("Exp", ["ys"], ["e"]),
        ],
        [value("x", [3]), value("trip", shape, INT64)],
        ["last", "ys", "zs", "e"],
    )
    both = Both(made, tmp_path)
    for trips in (3, 1, 100):
        feeds = {"x": floats(3) / 9, "trip": np.full(shape, trips)}
        both.agree(**feeds)
        with explorer.counters.delta() as did:
            both.compiled.run(feeds)
        assert (did.counts.regions_run, did.counts.replays) == (2, 2)
    for trips in (0, -2):
        found = both.compiled.run({"x": floats(3), "trip": np.full(shape, trips)})
        np.testing.assert_array_equal(found["last"], floats(3))
        assert [found[n].shape for n in ("ys", "zs", "e")] == [(0, 3), (0,), (0, 3)]


def test_a_library_call_in_the_body_leaves_the_rows_to_the_host(tmp_path: Path) -> None:
    """The kernels around it are compiled; a count is read, and no row by the interpreter."""
    nodes = [
        node("Add", ["s", "s"], ["t"]),
        node("Det", ["t"], ["d"]),
        node("Add", ["t", "d"], ["u"]),
        node("Identity", ["u"], ["y"]),
        node("Neg", ["d"], ["e"]),
    ]
    body = counted(nodes, [value("s", [2, 2])], ["u", "y", "e"])
    made = model(
        [node("Loop", ["trip", "", "x"], ["last", "ys", "es"], body=body)],
        [value("x", [2, 2])],
        ["last", "ys", "es"],
        {"trip": np.array(3)},
    )
    both = Both(made, tmp_path)
    both.agree(x=floats(2, 2))


def until(trip: Any, shape: Any = (3,)) -> onnx.ModelProto:
    """s doubles until its sum is above a limit, or `trip` times; each s is stacked, and its sum."""
    nodes = [
        node("Add", ["s", "s"], ["t"]),
        node("ReduceSum", ["t"], ["sum"], keepdims=0),
        node("Less", ["sum", "limit"], ["more"]),
        node("Identity", ["t"], ["y"]),
        node("Identity", ["sum"], ["z"]),
    ]
    inputs = [value("i", [], INT64), value("c", [], BOOL), value("s", list(shape))]
    body = graph(nodes, inputs, ["more", "t", "y", "z"])
    nodes = [
        node("Loop", ["trip", "go", "x"], ["last", "ys", "zs"], body=body),
        node("Exp", ["zs"], ["e"]),
    ]
    given = [value("x", list(shape)), value("limit", []), value("go", [], BOOL)]
    return model(nodes, given, ["last", "ys", "zs", "e"], {"trip": np.array(trip)})


def test_rows_of_a_loop_that_its_data_end_have_room_and_are_trimmed(tmp_path: Path) -> None:
    both = Both(until(12), tmp_path)
    x = np.ones(3, np.float32) / 64
    for limit in (0.01, 0.1, 1.0, 9.0, 1e9):  # one trip; some; no more than 12
        feeds = {"x": x, "limit": np.float32(limit), "go": np.array(True)}
        both.agree(**feeds)
        with explorer.counters.delta() as did:
            both.compiled.run(feeds)
        assert (did.counts.host_reads, did.counts.interpreted_kernels) == (0, 0)
        assert did.counts.regions_run == 2  # the loop, and what reads the parts
    found = both.compiled.run({"x": x, "limit": np.float32(9), "go": np.array(False)})
    np.testing.assert_array_equal(found["last"], x)
    assert [found[n].shape for n in ("ys", "zs", "e")] == [(0, 3), (0,), (0,)]


@pytest.mark.parametrize("trip", [1 << 40, 1 << 62])
def test_a_loop_without_a_bound_to_speak_of_is_followed_by_the_host(
    tmp_path: Path, trip: int
) -> None:
    both = Both(until(trip), tmp_path)
    x = np.ones(3, np.float32) / 64
    for limit in (0.01, 1.0, 9.0):
        both.agree(x=x, limit=np.float32(limit), go=np.array(True))


def test_a_padded_loop_is_printed_and_parsed(tmp_path: Path) -> None:
    program = explorer.compile(saved(until(12), tmp_path)).snapshot("relax").after
    text = print_program(program)
    assert "stacking 2 padded" in text
    assert parse_program(text, program.constants).functions == program.functions


def test_what_python_follows_is_on_the_host_and_its_bricks_are_those_that_were_planned(
    tmp_path: Path,
) -> None:
    compiled = explorer.compile(saved(until(1 << 40), tmp_path))
    tree = compiled.program.decisions.tasks
    assert tree is not None
    (loop, after) = (next(t for t in tree.parts if t.kind == k) for k in ("loop", "operator"))
    assert (tree.level, loop.level, after.level) == ("host", "host", "device")
    assert "values of the run" in loop.reason
    feeds = {"x": np.ones(3, np.float32) / 64, "limit": np.float32(1), "go": np.array(True)}
    measured = compiled.measured_wall({n: np.asarray(a) for n, a in feeds.items()})
    planned = compiled.planned_wall(compiled.hint)
    calls = {b.call for b in measured.bricks}
    assert calls == {b.call for b in planned.bricks}
    assert {c.partition("/")[0] for c in calls if "/" in c} == {loop.name}
    trips = {b.iteration for b in measured.bricks if "/" in b.call}
    assert trips == set(range(len(trips))) and len(trips) > 1


def test_planned_and_measured_walls_of_a_scan_have_the_same_bricks(tmp_path: Path) -> None:
    compiled = explorer.compile(saved(rnn(7), tmp_path)).with_options(grinder=Grinder("device"))
    planned = compiled.planned_wall({})
    measured = compiled.measured_wall({"h0": floats(1, 5), "xs": floats(7, 1, 5)})

    def places(wall: Wall) -> list[tuple[object, ...]]:
        return sorted((b.unit, b.call, b.first, b.last, b.iteration) for b in wall.bricks)

    assert places(planned) == places(measured)
    assert {b.iteration for b in planned.bricks} == set(range(7))
