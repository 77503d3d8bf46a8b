"""Types say what a value is: few asserts do, no decision is an `object`, no `repr` decides."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_ASSERTS = 23  # 18 begin with `assert isinstance`, five ask for more besides


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for room in ("explorer", "widgets"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def asserts(tree: ast.AST) -> list[int]:
    """Lines of asserts that ask for a type."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        and any(is_call_of(part, "isinstance") for part in ast.walk(node.test))
    ]


def texts_that_decide(tree: ast.AST) -> list[int]:
    """Lines that look for something in the `repr` of a value."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for op, right in zip(node.ops, node.comparators, strict=True)
        if isinstance(op, ast.In | ast.NotIn) and is_call_of(right, "repr")
    ]


def untyped_fields(tree: ast.AST) -> list[str]:
    """Fields of classes whose annotation names `object` or `Any`."""
    return [
        f"{kind.name}.{ast.unparse(field.target)}"
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for field in kind.body
        if isinstance(field, ast.AnnAssign)
        and any(
            isinstance(part, ast.Name) and part.id in ("object", "Any")
            for part in ast.walk(field.annotation)
        )
    ]


def test_asserts_of_types_become_no_more() -> None:
    found = [f"{path.relative_to(ROOT)}:{n}" for path, tree in trees() for n in asserts(tree)]
    assert found and len(found) <= MOST_ASSERTS, "\n".join(found)


def test_no_text_of_a_value_decides() -> None:
    found = [f"{p.relative_to(ROOT)}:{n}" for p, tree in trees() for n in texts_that_decide(tree)]
    assert not found


def test_no_field_of_decisions_is_of_any_type() -> None:
    files = [*(ROOT / "explorer/ir/decisions").glob("*.py")]
    assert len(files) > 5
    assert not [f for path in files for f in untyped_fields(ast.parse(path.read_text()))]


def test_what_these_tests_look_for_is_found() -> None:
    planted = ast.parse(
        "class D:\n    a: object | None = None\n    b: tuple[Any, ...] = ()\n    c: int = 0\n"
        "assert known and isinstance(x, int)\n"
        "if 'add' in repr(x) or 'b' not in repr(y): pass\n"
    )
    assert untyped_fields(planted) == ["D.a", "D.b"]
    assert asserts(planted) == [5] and texts_that_decide(planted) == [6, 6]
