"""The gradient of an embedding, a scatter-add of its rows, against NumPy's `add.at`.

    python -m tests.benchmarks embedding_gradient [--threads 1,2] [--seconds 3] [--json]

4096 random rows of 64 float32 elements are added to a table of 30522 rows, one of zeros and one
that is given and copied, in memory that is there before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.rammer import Options as RammerOptions
from tests.benchmarks.rows import Row, parser_of, report, timed

TABLE, ROWS, WIDTH = 30522, 4096, 64


def added(threads: int, given: bool) -> Compilation:
    """Rows added to a table, which is an input or zeros."""
    info, f = helper.make_tensor_value_info, TensorProto.FLOAT
    table = info("table", f, [TABLE, WIDTH])
    inputs = [info("ids", TensorProto.INT64, [ROWS, 1]), info("rows", f, [ROWS, WIDTH])]
    add = helper.make_node("ScatterND", ["table", "ids", "rows"], ["y"], reduction="add")
    zeros = helper.make_node("ConstantOfShape", ["shape"], ["table"])
    graph = helper.make_graph(
        [add] if given else [zeros, add],
        "embedding_gradient",
        [table, *inputs] if given else inputs,
        [info("y", f, [TABLE, WIDTH])],
        [] if given else [numpy_helper.from_array(np.array([TABLE, WIDTH]), "shape")],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradient.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
        options = explorer.Options(rammer=RammerOptions(threads=threads))
        compiled = explorer.compile(explorer.load(path), options=options)
    assert not compiled.program.library_calls
    return compiled


def by_numpy(values: dict[str, np.ndarray], y: np.ndarray) -> None:
    """The same in NumPy."""
    y[...] = values.get("table", 0)
    np.add.at(y, values["ids"][:, 0], values["rows"])


def rows(threads: Sequence[int], seconds: float) -> Iterator[Row]:
    """Yield a row for each number of threads, into zeros and into a table."""
    rng = np.random.default_rng(0)
    added_rows: dict[str, np.ndarray] = {
        "ids": rng.integers(0, TABLE, (ROWS, 1)),
        "rows": rng.standard_normal((ROWS, WIDTH)).astype(np.float32),
    }
    table = {"table": rng.standard_normal((TABLE, WIDTH)).astype(np.float32)}
    for count in threads:
        for values, what in ((added_rows, "zeros"), (table | added_rows, "a table")):
            ours = added(count, "table" in values)
            y, wanted = (np.empty((TABLE, WIDTH), np.float32) for _ in "ab")
            run, numpy = partial(ours.run, values, out={"y": y}), partial(by_numpy, values, wanted)
            run(), numpy()
            np.testing.assert_array_equal(y, wanted)
            name = f"into {what}, {count} threads"
            yield timed(name, {"ours": run}, {"np.add.at": numpy}, seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows."""
    flags = parser_of(__doc__, threads="1,2", seconds=3.0).parse_args(arguments)
    report(rows(flags.threads, flags.seconds), flags.json)


if __name__ == "__main__":
    main()
