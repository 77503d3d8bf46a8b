"""Programs in which values of the run decide shapes: compiled regions, the host between them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import IronworksError, ShapeError
from explorer.frontends.model import Model
from explorer.grinder import Options as Grinder
from explorer.grinder.regions import cut_regions, is_dynamic
from explorer.ir.calls import FunctionCall
from explorer.ir.program import Constant
from explorer.ir.text.program_text import parse_program
from tests.frontends.models import model, saved, value

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def graph(nodes: list[Any], inputs: list[Any], outputs: list[str], **constants: Any) -> Any:
    """A body."""
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return helper.make_graph(nodes, "body", inputs, results, weights)


SCHEDULES = [*map(Grinder, ("device", "host", "eager")), Grinder("unrolled", unroll=3)]


class Both:
    """One model, compiled once, and onnxruntime's session of it."""

    def __init__(self, made: onnx.ModelProto, folder: Path) -> None:
        path = saved(made, folder)
        self.compiled: Compilation = explorer.compile(path)
        self.session = onnxruntime.InferenceSession(str(path))

    def agree(self, **inputs: Any) -> None:
        """Both give the same under every schedule, and so does the interpreter at every stage."""
        given = {n: np.asarray(a) for n, a in inputs.items()}
        wanted = self.session.run(None, given)
        with explorer.counters.delta() as did:
            self.compiled.run(given)
        assert did.counts.interpreted_kernels == 0
        stages = [self.compiled.program, self.compiled.snapshot("relax").after]
        for found in (
            self.compiled.run(given),
            self.compiled.run(given),
            *(self.compiled.with_options(grinder=g).run(given) for g in SCHEDULES),
            *(explorer.evaluate(p, given) for p in stages),
        ):
            for ours, right in zip(found.values(), wanted, strict=True):
                assert ours.dtype == right.dtype
                assert ours.shape == right.shape
                np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def chain(folder: Path) -> Both:
    """Elements above zero, doubled."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["i"]),
        node("Transpose", ["i"], ["t"]),
        node("GatherND", ["r", "t"], ["g"]),
        node("Add", ["g", "g"], ["y"]),
    ]
    return Both(model(nodes, [value("x", ["n", 4])], ["y"]), folder)


def test_a_shape_that_depends_on_values_is_compiled_around(tmp_path: Path) -> None:
    both = chain(tmp_path)
    assert is_dynamic(both.compiled.program)
    before = explorer.counters.kernel_compiles
    for n in (1, 2, 7, 13):
        both.agree(x=floats(n, 4))
    both.agree(x=-np.ones((3, 4), np.float32))  # nothing is found
    both.agree(x=np.full((3, 4), np.inf, np.float32))
    assert explorer.counters.kernel_compiles == before


def test_regions_are_as_long_as_they_can_be(tmp_path: Path) -> None:
    program = chain(tmp_path).compiled.program
    found = cut_regions(program)
    calls = [b.expr for b in found.program.main.body if isinstance(b.expr, FunctionCall)]
    assert len(calls) == len(found.regions) == 2
    assert sum(len(r.kernel_calls) for r in found.regions.values()) == len(program.kernel_calls)


def test_the_wall_of_a_dynamic_run_has_the_bricks_of_all_regions(tmp_path: Path) -> None:
    compiled = chain(tmp_path).compiled
    wall = compiled.measured_wall({"x": floats(9, 4)})
    assert {b.call for b in wall.bricks} == {b.var.name for b in compiled.program.kernel_calls}
    planned = compiled.planned_wall(compiled.hint)
    assert wall.host and {b.call for b in wall.host} == {b.call for b in planned.host}
    assert [g for g in wall.gaps if g.cause == "library"]
    assert compiled.planned_wall({"n": 9}).bricks
    assert compiled.memory({"n": 9}).planned_bytes > 0


def test_a_run_counts_once_and_each_of_its_regions_once(tmp_path: Path) -> None:
    compiled = chain(tmp_path).compiled
    with explorer.counters.delta() as did:
        compiled.run({"x": floats(3, 4)})
    assert (did.counts.runs, did.counts.regions_run) == (1, 2)


def test_an_array_for_an_output_is_filled_or_refused_by_name(tmp_path: Path) -> None:
    compiled = chain(tmp_path).compiled
    x = np.ones((2, 4), np.float32)
    out = np.zeros(8, np.float32)
    found = compiled.run({"x": x}, out={"y": out})
    assert found["y"] is out and (out == 2).all()
    with pytest.raises(ShapeError, match="'y'"):
        compiled.run({"x": x}, out={"y": np.zeros(7, np.float32)})


def test_several_threads_run_one_dynamic_program(tmp_path: Path) -> None:
    compiled = chain(tmp_path).compiled
    wrong: list[object] = []

    def work(n: int) -> None:
        x = floats(n, 4)
        right = 2 * x[x > 0]
        for _ in range(20):
            if not np.allclose(compiled.run({"x": x})["y"], right):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_branches_of_other_shapes_both_run(tmp_path: Path) -> None:
    then = graph([node("Concat", ["x", "x"], ["a"], axis=0)], [], ["a"])
    orelse = graph([node("Exp", ["x"], ["b"])], [], ["b"])
    nodes = [
        node("If", ["c"], ["z"], then_branch=then, else_branch=orelse),
        node("Relu", ["z"], ["y"]),
    ]
    both = Both(model(nodes, [value("x", ["n", 3]), value("c", [], BOOL)], ["y"]), tmp_path)
    for n in (1, 5):
        for flag in (True, False):
            both.agree(x=floats(n, 3), c=np.array(flag))


def growing(folder: Path) -> Both:
    """A loop whose state gets a row longer each time, and that keeps a row of each iteration."""
    body = graph(
        [
            node("Identity", ["c"], ["more"]),
            node("Concat", ["s", "x"], ["t"], axis=0),
            node("ReduceSum", ["t", "zero"], ["row"], keepdims=0),
        ],
        [value("i", [], INT64), value("c", [], BOOL), value("s")],
        ["more", "t", "row"],
        zero=np.array([0]),
    )
    nodes = [node("Loop", ["trip", "", "x"], ["last", "rows"], body=body)]
    inputs = [value("x", ["n", 3]), value("trip", [], INT64)]
    return Both(model(nodes, inputs, ["last", "rows"]), folder)


def test_the_body_of_a_loop_that_the_host_follows_is_compiled(tmp_path: Path) -> None:
    compiled = growing(tmp_path).compiled
    with explorer.counters.delta() as did:
        compiled.run({"x": floats(2, 3), "trip": np.array(5)})
    assert did.counts.interpreted_kernels == 0
    assert did.counts.regions_run >= 5


@pytest.mark.parametrize("trip", [1, 2, 5])
def test_a_loop_whose_state_grows_stacks_a_row_of_each_trip(tmp_path: Path, trip: int) -> None:
    both = growing(tmp_path)
    for n in (1, 4):
        both.agree(x=floats(n, 3), trip=np.array(trip))


def test_a_loop_that_makes_no_trip_stacks_no_row(tmp_path: Path) -> None:
    compiled = growing(tmp_path).compiled
    x = floats(2, 3)
    found = compiled.run({"x": x, "trip": np.array(0)})
    np.testing.assert_array_equal(found["last"], x)
    assert found["rows"].shape == (0, 3)


RECURSION = """
program powers at IMPORTED
symbol n: 1 .. any hint 4
symbol m: 1 .. any hint 4

def main(x: float32[n, 2], k: int64[]):
  y: float32[n, 2] = call power(x, k)  # power
  output y

def power(a: float32[m, 2], e: int64[]):
  none: bool[] = LessOrEqual(e, @zero)  # power
  r: float32[m, 2] = if none then power.base else power.step of (a, e)  # power
  return r

def power.base(ab: float32[m, 2], eb: int64[]):
  least: float32[m, 2] = Exp(ab)  # power
  return least

def power.step(as: float32[m, 2], es: int64[]):
  less: int64[] = Sub(es, @one)  # power
  rest: float32[m, 2] = call power(as, less)  # power
  more: float32[m, 2] = Add(rest, as)  # power
  return more

source power Power ""
"""


def recursive() -> Compilation:
    constants = {"zero": Constant(np.array(0)), "one": Constant(np.array(1))}
    table = "".join(f'constant @{n}: int64[] = "{c.digest}"\n' for n, c in constants.items())
    return explorer.compile(Model("powers", "", parse_program(RECURSION + table, constants)))


def test_a_function_that_calls_itself_has_a_frame_for_each_call() -> None:
    compiled = recursive()
    for n in (1, 3):
        x = floats(n, 2)
        for k in (0, 1, 6):
            found = compiled.run({"x": x, "k": np.array(k)})["y"]
            np.testing.assert_allclose(found, np.exp(x) + k * x, rtol=1e-5)


def test_recursion_without_end_is_stopped_by_name() -> None:
    with pytest.raises(IronworksError, match="power"):
        recursive().run({"x": floats(1, 2), "k": np.array(1 << 40)})
