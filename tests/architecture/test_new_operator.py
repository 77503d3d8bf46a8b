"""An operator is added as one record, by `explorer.operator(record)` or in `RECORDS` of a file of
`explorer.ops`.
"""

import numpy as np
import pytest

import explorer
from explorer.ops.elementwise import call, unary
from tests.architecture.conftest import FLOAT, File, Shell
from tests.architecture.house import drawn, program
from widgets.session.session import Session

CUBE = unary(
    "Cube",
    lambda site, x, dtype: call("mul", call("mul", x, x), x),
    lambda attrs, args: args[0] * args[0] * args[0],
)


@pytest.mark.parametrize("rows", [1, 2, 13])
def test_it_is_traced_compiled_and_checked(rows: int) -> None:
    cube = explorer.operator(CUBE)

    @explorer.trace
    def model(x: explorer.tensor("float32", "rows", 7)):  # type: ignore[no-untyped-def,valid-type]
        return cube(x) + 1

    c = explorer.compile(model, check=True)
    assert {s.checked for s in c.snapshots[:-1]} == {True}  # the last makes no program
    x = np.random.default_rng(rows).normal(size=(rows, 7)).astype(np.float32)
    x[0, :2] = np.nan, np.inf
    (got,) = c.run({"x": x}).values()
    np.testing.assert_allclose(got, x * x * x + 1, 1e-6)


def test_a_file_names_it_and_the_house_and_the_shell_show_it(file: File, shell: Shell) -> None:
    explorer.operator(CUBE, domain="own")
    path = file("Cube", FLOAT, ("n", 96), ("n", 96))
    session = Session(explorer.compile(path))
    assert [o.op for o in session.house.operators] == ["Cube"]
    assert "· x[i, j]" in program(session, "legalise to kernels")
    assert "the_node" in drawn(session, "dataflow")
    assert "the_node" in shell("explain", path, "--stage", "roller", "--rewrites")
    assert "Cube" in shell("check", path)
