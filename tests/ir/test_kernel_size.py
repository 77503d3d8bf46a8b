"""Expressions as trees: how large they are, walked at any depth, kept where nothing changes."""

from explorer.ir.affine import Affine, affine, var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Kernel,
    Read,
    Size,
    TensorSpec,
    expr_size,
    reads,
    rename_tensors,
    rewrite,
    size_of,
    substitute,
)

X = Read("x", (var("i"),))
Y = Read("y", (var("j"), X))


def test_operations_are_counted_where_they_stand_and_depth_where_they_nest() -> None:
    double = Apply("add", (X, X))
    assert expr_size(X) == expr_size(Const(1)) == Size(0, 0)
    assert expr_size(double) == Size(1, 1)
    assert expr_size(Apply("mul", (double, Apply("neg", (double,))))) == Size(4, 3)
    assert expr_size(Read("t", (double,))) == Size(1, 2)


def test_a_kernel_is_as_deep_as_its_deepest_compute() -> None:
    i = (Axis("i", 4),)
    computes = (Compute("t", i, Apply("exp", (X,))), Compute("y", i, Read("t", (var("i"),))))
    specs = tuple(TensorSpec(n, (4,)) for n in "xty")
    assert size_of(Kernel("k", specs, computes, ("x",), ("y",))) == Size(1, 1)


def test_loads_come_in_reading_order_with_those_of_an_index_after_their_load() -> None:
    tree = Apply("where", (Y, Apply("add", (Const(1), X)), Read("z", ())))
    assert [r.tensor for r in reads(tree)] == ["y", "x", "x", "z"]


def test_loads_are_found_at_any_depth() -> None:
    tree: Apply | Read = X
    for _ in range(20_000):
        tree = Apply("neg", (tree,))
    assert [r.tensor for r in reads(tree)] == ["x"]


def test_what_a_rewrite_does_not_change_stays_the_same_object() -> None:
    left, right = Apply("exp", (X,)), Apply("log", (Y,))
    tree = Apply("add", (left, right))
    assert rewrite(tree, lambda r: r) is tree
    assert substitute(tree, {"k": var("i")}) is tree
    changed = substitute(tree, {"j": affine({"k": 2}, 1)})
    assert isinstance(changed, Apply) and changed.args[0] is left
    assert list(reads(changed))[1].index[0] == affine({"k": 2}, 1)


def test_renaming_nothing_gives_the_kernel_itself() -> None:
    compute = Compute("y", (Axis("i", 4),), X)
    kernel = Kernel("k", (TensorSpec("x", (4,)), TensorSpec("y", (4,))), (compute,), ("x",), ("y",))
    assert rename_tensors(kernel, {"z": "w"}) is kernel
    assert rename_tensors(kernel, {"x": "z"}).inputs == ("z",)


def test_substituted_indices_are_in_normal_form() -> None:
    n = symbol("n")
    index = affine({"i": n, "j": 2}, 3)
    assert index.substitute({"i": affine({"k": 1}, 1)}) == affine({"k": n, "j": 2}, n + 3)
    assert index.substitute({"i": var("k"), "j": affine({"k": -1}) * 1}) == affine({"k": n - 2}, 3)
    assert affine({"i": 2}).substitute({"i": Affine()}) == Affine()
    assert affine({"i": 1, "j": -1}).substitute({"j": var("i")}) == Affine()


def test_what_is_known_of_some_symbols_does_not_tell_of_others() -> None:
    n, m = SymbolBound("n", 1, 8, 4), SymbolBound("m", 2, None, 3)
    assert ShapeEnv((n, m)).only(frozenset({"m", "k"})) == ShapeEnv((m,))
    assert hash(ShapeEnv((n, m))) == hash(ShapeEnv((n, m)))
    assert ShapeEnv((n, m)).of("k") == SymbolBound("k")
