"""No module stands in a circle of imports, those for types alone included."""

from __future__ import annotations

from pathlib import Path

import networkx as nx

from tests.architecture.imports import imported, modules


def circles(graph: nx.DiGraph) -> set[frozenset[str]]:
    return {frozenset(c) for c in nx.strongly_connected_components(graph) if len(c) > 1}


def test_no_module_stands_in_a_circle() -> None:
    graph = nx.DiGraph((name, used) for name, path in modules().items() for used in imported(path))
    assert len(graph) > 500
    assert circles(graph) == set()


def test_an_import_for_types_alone_counts_and_one_inside_a_function_does_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "from explorer.ir import kernel, types\n"
        "if TYPE_CHECKING:\n    from explorer.ir.program import Program\n"
        "class A:\n    import explorer.errors\n"
        "def late():\n    from explorer.compiler import compile\n"
        "from explorer.ir.kernels.normal import normalise\n"
    )
    assert set(imported(path)) == {
        "explorer.ir.kernel",
        "explorer.ir.types",
        "explorer.ir.program",
        "explorer.errors",
        "explorer.ir.kernels.normal",
    }
    assert circles(nx.DiGraph([(1, 2), (2, 3), (3, 1), (3, 4)])) == {frozenset((1, 2, 3))}
