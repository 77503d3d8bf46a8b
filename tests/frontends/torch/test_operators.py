"""PyTorch's operators give what PyTorch gives; none is taken wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import UnsupportedOperator
from explorer.frontends.torch import check_program, functionalize
from explorer.frontends.torch.importer import array_of
from explorer.ir.calls import OpCall
from explorer.ir.text.program_text import print_program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.training import trainable

torch: Any = pytest.importorskip("torch")
F: Any = torch.nn.functional


def module(run: Callable[..., Any], inputs: int) -> Any:
    class Module(torch.nn.Module):  # type: ignore[misc]
        pass

    names = ", ".join(f"x{i}" for i in range(inputs))
    scope = {"run": run}
    exec(f"def forward(self, {names}): return run({names})", scope)
    Module.forward = scope["forward"]  # type: ignore[assignment]
    return Module()


def exported(run: Callable[..., Any], args: tuple[Any, ...], dims: Any = None) -> Any:
    given = tuple(a.clone() for a in args)
    return torch.export.export(module(run, len(args)), given, dynamic_shapes=dims)


def check(found: dict[str, Any], wanted: Any) -> None:
    each = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    assert len(found) == len(each)
    for got, want in zip(found.values(), each, strict=True):
        assert np.asarray(got).dtype == want.numpy().dtype
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def agrees(run: Callable[..., Any], *args: Any) -> explorer.Model:
    """The interpreter gives what PyTorch gives, and nothing of it came by way of ONNX."""
    model = explorer.load(exported(run, args))
    assert any(s.op.startswith(("aten.", "torch_nn.")) for s in model.program.sources)
    feeds = dict(zip(model.inputs, map(array_of, args), strict=True))
    check(evaluate(model.program, feeds), run(*(a.clone() for a in args)))
    return model


def randn(*shape: int) -> Any:
    torch.manual_seed(len(shape))
    return torch.randn(*shape)


MASK = torch.tensor([[True, True], [False, False]])
PLACES = torch.tensor([0, 0, 2])
# What PyTorch's exporter to ONNX writes wrongly.
WRONG_BY_ONNX: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "divisor_override": (
        lambda x: F.avg_pool2d(x, 3, divisor_override=2),
        (randn(1, 1, 6, 6),),
    ),
    "batch norm while training": (
        lambda x: F.batch_norm(x, None, None, training=True),
        (randn(4, 3, 5, 5) * 3 + 5,),
    ),
    "label smoothing": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        (randn(3, 4), torch.tensor([0, 1, 3])),
    ),
    "scatter_reduce without itself": (
        lambda x, i, v: x.scatter_reduce(0, i, v, "mean", include_self=False),
        (torch.ones(4), PLACES, randn(3)),
    ),
    "a masked row of attention": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (randn(1, 1, 2, 4), MASK),
    ),
    "a row that is endless below": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (randn(1, 1, 2, 4), torch.where(MASK, 0.0, -torch.inf)),
    ),
    "integer atan2": (torch.atan2, (torch.tensor([0, 3]), torch.tensor([-1, -2]))),
}
# What it does not write at all.
REFUSED_BY_ONNX: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "masked_select": (lambda x: torch.masked_select(x, x > 0), (randn(3, 4),)),
    "cumprod": (lambda x: x.cumprod(1), (randn(3, 5),)),
    "cummax": (lambda x: x.cummax(1), (randn(3, 5),)),
    "cummin": (lambda x: x.cummin(0), (torch.tensor([3, 1, 1, 2, 0]),)),
    "fmax": (torch.fmax, (torch.tensor([1.0, torch.nan]), torch.tensor([torch.nan, 2.0]))),
    "stable sort": (lambda x: x.sort(stable=True, descending=True), (PLACES,)),
    "searchsorted": (
        lambda x, v: torch.searchsorted(x, v, right=True),
        (torch.tensor([1.0, 2, 2, 4]), torch.tensor([[0.0, 2], [3, 9]])),
    ),
    "median": (lambda x: x.median(1), (randn(3, 4),)),
    "median of nan": (lambda x: x.median(), (torch.tensor([1.0, torch.nan, 3.0]),)),
    "kthvalue": (lambda x: x.kthvalue(2, 0), (randn(4, 3),)),
    "nanmedian": (lambda x: x.nanmedian(0), (torch.tensor([1.0, torch.nan, 3.0, 2.0]),)),
    "adaptive_max_pool": (
        lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
        (randn(1, 2, 5, 7),),
    ),
    "cdist": (lambda a, b: torch.cdist(a, b, p=3.0), (randn(3, 4), randn(2, 4))),
    "erfinv": (torch.erfinv, (torch.tensor([-0.99, -0.3, 0.0, 0.5, 1.0]),)),
    "lgamma": (torch.lgamma, (torch.tensor([-1.5, 0.1, 1.0, 2.5, 30.0]),)),
    "digamma": (torch.digamma, (torch.tensor([-1.5, 0.1, 1.0, 2.5, 30.0]),)),
    "polygamma": (lambda x: torch.polygamma(2, x), (torch.tensor([0.3, 1.0, 7.0]),)),
    "gcd": (torch.gcd, (torch.tensor([12, 0, -9]), torch.tensor([18, 5, 6]))),
    "copysign": (torch.copysign, (torch.tensor([1.0, -2, 3]), torch.tensor([-0.0, 0.0, -1]))),
    "frexp": (torch.frexp, (torch.tensor([-3.0, 1e-42, 0, 0.5, 1e30, torch.inf]),)),
    "bits": (lambda x: x.view(torch.int32), (randn(3),)),
    "geqrf": (lambda x: torch.geqrf(x), (randn(2, 4, 3),)),
    "ormqr": (
        lambda a, t, b: torch.ormqr(a, t, b, transpose=True),
        (randn(4, 2), randn(2), randn(4, 3)),
    ),
    "scores of a linear layer": (
        lambda x, w, y: F.linear_cross_entropy(
            x, w, y, options=torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
        ),
        (randn(5, 4), randn(3, 4), torch.tensor([0, 2, -100, 1, 1])),
    ),
    "igamma": (
        lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
        (
            torch.tensor([[0.1], [3], [250], [0], [torch.inf]]),
            torch.tensor([-1, 0, 0.05, 2.5, 40, 251, torch.inf]),
        ),
    ),
    "nextafter": (torch.nextafter, (torch.tensor([0.0, 1, -2]), torch.tensor([1.0, 0, -2]))),
    "bilinear forms": (F.bilinear, (randn(4, 3), randn(4, 2), randn(5, 3, 2), torch.ones(5))),
    "smaller images": (
        lambda x: F.interpolate(x, (3, 4), mode="bicubic", antialias=True),
        (randn(1, 2, 9, 7),),
    ),
    "unravel_index": (lambda i: torch.unravel_index(i, (3, 4)), (torch.tensor([5, 11]),)),
    "angle": (torch.angle, (torch.tensor([-1.0, 0, 2, torch.nan]),)),
    "unique": (
        lambda x: torch.unique(x, return_inverse=True),
        (torch.tensor([[3, 1], [1, 2]]),),
    ),
    "hstack": (lambda a, b: torch.hstack([a, b]), (torch.ones(3), torch.zeros(2))),
    "embedding bags": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="mean"),
        (torch.arange(15.0).view(5, 3), torch.tensor([0, 1, 4, 2]), torch.tensor([0, 2])),
    ),
    "repeat_interleave": (
        lambda x, k: torch.repeat_interleave(x, k, dim=0),
        (torch.arange(6.0).view(3, 2), torch.tensor([1, 0, 2])),
    ),
    "index_reduce": (
        lambda x, i, v: x.index_reduce(0, i, v, "amax"),
        (torch.zeros(3, 2), PLACES, randn(3, 2)),
    ),
    "segment_reduce": (
        lambda x, n: torch.segment_reduce(x, "mean", lengths=n),
        (randn(5, 2), torch.tensor([2, 3])),
    ),
    "groups of rows": (
        lambda x, w, n: torch.ops.aten._grouped_mm(x, w, n).float(),
        (
            randn(6, 8).bfloat16(),
            randn(3, 8, 8).bfloat16(),
            torch.tensor([2, 2, 6], dtype=torch.int32),
        ),
    ),
    "negative pads": (lambda x: F.pad(x, (2, -1), mode="replicate"), (randn(1, 2, 4),)),
    "pinv": (torch.linalg.pinv, (randn(3, 2),)),
    "pinv of no columns": (torch.linalg.pinv, (torch.ones(3, 0),)),
    "_int_mm": (
        torch._int_mm,
        (torch.ones(17, 8, dtype=torch.int8), torch.full((8, 8), 3, dtype=torch.int8)),
    ),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT + 3 * torch.eye(3)), (randn(3, 3),)),
    "solve": (torch.linalg.solve, (randn(3, 3) + 3 * torch.eye(3), randn(3, 2))),
    "det": (torch.linalg.det, (randn(2, 3, 3),)),
    "masked_scatter": (
        torch.masked_scatter,
        (torch.arange(4.0), torch.tensor([True, False, True, False]), torch.arange(4.0) * 10),
    ),
}
CASES = {**WRONG_BY_ONNX, **REFUSED_BY_ONNX}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_what_pytorch_gives(name: str) -> None:
    run, args = CASES[name]
    agrees(run, *args)


BESSEL = (
    *("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "airy_ai"),
    *("modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "spherical_bessel_j0"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "i0e", "i1e"),
)
POLYNOMIALS = (
    *("chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)


def test_bessel_functions_are_right_in_float64() -> None:
    x = torch.tensor([-torch.inf, *torch.linspace(-12, 12, 49).tolist(), 200, torch.nan])
    agrees(lambda x: [getattr(torch.special, f)(x) for f in BESSEL], x.double())


def test_orthogonal_polynomials_have_the_degree_of_each_element() -> None:
    """One of a degree below 0 is 0, and a degree is cut to an integer."""
    x = torch.tensor([-1.5, -1, 0, 0.3, 1, 2]).double()
    n = torch.tensor([[-1], [0], [1], [2.9], [9]]).double()
    agrees(lambda x, n: [getattr(torch.special, f)(x, n) for f in POLYNOMIALS], x, n)


def test_sums_that_cancel_are_no_other_operator() -> None:
    agrees(lambda x: F.instance_norm(x).sum((0, 2)), randn(8, 5, 9))


def test_a_polynomial_of_one_degree_keeps_float32() -> None:
    agrees(lambda x: torch.special.legendre_polynomial_p(x, 3), randn(3))


def test_matrices_are_factored_by_labelled_library_calls() -> None:
    model = agrees(torch.linalg.svdvals, randn(3, 4))
    assert "library linalg singular_values" in print_program(model.program)


@pytest.mark.parametrize("name", ["label smoothing", "repeat_interleave", "cholesky"])
def test_it_is_compiled_too(name: str) -> None:
    run, args = CASES[name]
    compiled = explorer.compile(exported(run, args))
    feeds = dict(zip(compiled.model.inputs, (a.numpy() for a in args), strict=True))
    check(dict(compiled.run(feeds)), run(*args))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_is_one_operator(kind: str) -> None:
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(4, 3, num_layers=2, bidirectional=True, batch_first=True)
    x = randn(2, 5, 4)
    model = explorer.load(torch.export.export(layer.eval(), (x,)))
    calls = [b.expr for b in model.program.main.body if isinstance(b.expr, OpCall)]
    assert sum(c.op == kind for c in calls) == 2
    rows, last = layer(x)
    wanted = (rows, *(last if isinstance(last, tuple) else (last,)))
    check(evaluate(model.program, {"input": x.numpy()}), [w.detach() for w in wanted])


def test_an_input_that_is_an_output_keeps_its_name() -> None:
    model = agrees(lambda x, y: (x, x + y), torch.ones(2), torch.ones(2))
    assert list(model.inputs) == ["x0", "x1"]
    assert model.outputs == ("x0", "add")


def changes(x: Any) -> Any:
    y = x.exp()
    y.add_(1)
    z = y * 2
    y.mul_(z)
    return y, z


def changes_through_a_view(x: Any) -> Any:
    y = x.exp()
    y[1:].add_(y[0])
    return y * 2


@pytest.mark.parametrize("run", [changes, changes_through_a_view], ids=lambda f: f.__name__)
def test_what_is_changed_in_place_is_read_as_it_is_then(run: Callable[..., Any]) -> None:
    model = agrees(run, randn(3))
    kept = any(s.op == "aten.add_.Tensor" for s in model.program.sources)
    assert kept == (run is changes)  # else PyTorch writes it without changes


class Counter(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        self.n.add_(x)
        return self.n * 2


def test_a_buffer_that_is_changed_is_what_the_run_before_left() -> None:
    program, one = torch.export.export(Counter(), (torch.ones(2),)), np.ones(2, "float32")
    first, second = explorer.compile(program), explorer.compile(program)
    for times in (2, 4, 6):
        (found,) = first.run({"x": one}).values()
        np.testing.assert_array_equal(found, times * one)
    np.testing.assert_array_equal(first.state["n"], 3 * one)
    (found,) = second.run(one).values()
    np.testing.assert_array_equal(found, 2 * one)
    assert list(second.model.inputs) == ["x"] and second.model.outputs == ("mul",)


def test_statistics_of_a_norm_follow_the_batches() -> None:
    norm = torch.nn.BatchNorm1d(3)
    compiled = explorer.compile(torch.export.export(norm, (randn(4, 3),)))
    for k in (1, 2):
        x = randn(4, 3) * k
        check(dict(compiled.run(x.numpy())), norm(x).detach())
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(compiled.state[name], getattr(norm, name), rtol=1e-5)


def test_a_buffer_is_changed_beside_control_flow() -> None:
    class Both(Counter):
        def forward(self, x: Any) -> Any:
            self.n.add_(x)
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    compiled = explorer.compile(torch.export.export(Both(), (torch.ones(2),)))
    for times, sign in ((1, 1), (0, -1)):
        (found,) = compiled.run(sign * np.ones(2, "float32")).values()
        np.testing.assert_allclose(found, np.sin(1) if sign > 0 else np.cos(1), rtol=1e-6)
        np.testing.assert_array_equal(compiled.state["n"], np.full(2, times, "float32"))


def test_no_gradient_goes_where_pytorch_takes_none() -> None:
    """Neither through `detach`, nor to the row of a table that pads."""

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Embedding(4, 2, padding_idx=0)
            self.weight = torch.nn.Parameter(randn(2))

        def forward(self, x: Any) -> Any:
            return (self.rows(x) * self.weight + self.weight.detach() ** 2).sum(1)

    module, x = Module(), torch.tensor([[0, 1], [2, 0]])
    with torch.no_grad():
        module.rows.weight[0] = 1.0
    model = trainable(torch.export.export(module, (x,)))
    slopes = explorer.grad(lambda p, x: (model(p, x) ** 2).sum())(model.params, x.numpy())
    (module(x) ** 2).sum().backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(slopes[name], parameter.grad, rtol=1e-5)


@pytest.mark.parametrize(
    "run",
    [
        lambda a, b: torch.linalg.solve(a, b),
        lambda a, b: torch.linalg.inv(a) @ b,
        lambda a, b: torch.linalg.det(a) * b,
        lambda a, b: torch.linalg.slogdet(a)[1] * b,
        lambda a, b: torch.linalg.cholesky(a @ a.mT) @ b,
        lambda a, b: torch.linalg.eigvalsh(a @ a.mT) * b,
        lambda a, b: torch.linalg.svdvals(a) * b,
        lambda a, b: torch.linalg.solve_triangular(a, b @ a, upper=True, unitriangular=True),
        lambda a, b: torch.linalg.eigh(a + a.mT)[1] * b,
        lambda a, b: torch.linalg.qr(a[:, :2])[0] * b[:, :2] + torch.linalg.qr(a[:2])[1].sum(),
        lambda a, b: torch.cat(torch.linalg.svd(a[:, :2], False)[::2]) * b[0, :2],
        lambda a, b: torch.linalg.lu_factor(a[:2])[0] + torch.linalg.lu_factor(a[:, :2])[0].mT,
        lambda a, b: torch.linalg.matrix_exp(a) * b,
        lambda a, b: torch.linalg.pinv(a[:2].mT @ a[:2]) * b + torch.linalg.pinv(a[:2])[:, :1],
        lambda a, b: torch.linalg.householder_product(a[:, :2] / 9, b[0, :2]) * b[:, :2],
        lambda a, b: torch.linalg.solve(a, torch.stack([b, 2 * b])),
    ],
    ids=[
        *("solve", "inv", "det", "slogdet", "cholesky", "eigvalsh", "svdvals", "triangle", "eigh"),
        *("qr", "svd", "lu", "exp", "pinv", "householder", "broadcast"),
    ],
)
def test_linear_algebra_has_derivatives(run: Callable[..., Any]) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(randn(3, 3) + 3 * torch.eye(3))

        def forward(self, b: Any) -> Any:
            return run(self.a, b)

    module, b = Module(), randn(3, 3, 1)[0].expand(3, 3).contiguous()
    model = trainable(torch.export.export(module, (b,)))
    slopes = explorer.grad(lambda p, b: (model(p, b) ** 2).sum())(model.params, b.numpy())
    (module(b) ** 2).sum().backward()
    np.testing.assert_allclose(slopes["a"], module.a.grad, rtol=1e-3, atol=1e-3)


FLAT: dict[str, Callable[..., Any]] = {
    **{
        f"norm {n}": lambda a, b, n=n: torch.linalg.vector_norm(a, n, dim=1)[:, None] * b
        for n in (-1.0, 0.5, 3.0)
    },
    "nextafter": lambda a, b: torch.nextafter(a, b) * b,
}


@pytest.mark.parametrize("name", FLAT)
def test_slopes_are_those_of_pytorch_where_it_says_that_there_are_none(name: str) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.tensor([[0.0, 2, 3], [0, 0, 0]]))

        def forward(self, b: Any) -> Any:
            return FLAT[name](self.a, b)

    module, b = Module(), torch.tensor([2.0, 2, 5])
    model = trainable(torch.export.export(module, (b,)))
    slopes = explorer.grad(lambda p, b: model(p, b).sum())(model.params, b.numpy())
    module(b).sum().backward()
    np.testing.assert_allclose(slopes["a"], module.a.grad, rtol=1e-4)


def dim(name: str) -> Any:
    return torch.export.Dim(name, min=2, max=64)


def test_running_products_and_places_of_symbols() -> None:
    dims = ({0: dim("rows"), 1: dim("columns")},)

    def run(x: Any) -> Any:
        return x.cumprod(1), x.cummax(0), F.adaptive_max_pool2d(x[None], 2, return_indices=True)

    model = explorer.load(exported(run, (randn(4, 5),), dims))
    for shape in ((4, 5), (7, 3)):
        x = randn(*shape)
        first, second, third = run(x)
        check(evaluate(model.program, {"x0": x.numpy()}), (first, *second, *third))


def test_diagonals_and_windows_of_symbols() -> None:
    dims = ({0: dim("rows"), 1: torch.export.Dim("columns", min=3, max=64)},)

    def run(x: Any) -> Any:
        return x.diagonal(1), x.diagonal(-1), x.unfold(1, 2, 1), torch.diag_embed(x, 1)

    model = explorer.load(exported(run, (randn(4, 5),), dims))
    for shape in ((4, 5), (7, 3), (2, 4)):
        x = randn(*shape)
        check(evaluate(model.program, {"x0": x.numpy()}), run(x))


POOLS = {
    "largest": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "places": lambda x: F.max_pool2d(x, 2, 3, ceil_mode=True, return_indices=True),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "mean of the image": lambda x: F.avg_pool2d(x, 3, 2, 1, True, count_include_pad=False),
    "steps of one": lambda x: F.avg_pool2d(x, 3, 1, ceil_mode=True, divisor_override=5),
}


@pytest.mark.parametrize("name", POOLS)
def test_the_last_windows_of_symbolic_images(name: str) -> None:
    auto = torch.export.Dim.AUTO
    program = exported(POOLS[name], (randn(2, 3, 11, 13),), ({2: auto, 3: auto},))
    model = explorer.load(program)
    assert any(s.op.startswith("aten.") for s in model.program.sources)
    for sides in ((11, 13), (12, 12), (7, 9), (10, 8)):
        x = randn(2, 3, *sides)
        check(evaluate(model.program, {"x0": x.numpy()}), POOLS[name](x))


def test_places_of_windows_of_which_there_is_one_whatever_the_size() -> None:
    def run(x: Any) -> Any:
        return F.unfold(x, 1, stride=3)

    auto = torch.export.Dim.AUTO
    model = explorer.load(exported(run, (randn(8, 2, 11, 3),), ((auto,) * 4,)))
    *_, width = model.inputs["x0"].dims
    assert model.program.env.bounds(width) == (2, 3)
    compiled = explorer.compile(model, until="planned")
    for shape in ((8, 2, 11, 3), (3, 2, 7, 2)):
        x = randn(*shape)
        check(evaluate(compiled.program, {"x0": x.numpy()}), run(x))


def test_channels_that_only_a_run_counts() -> None:
    """They are of the second dim, whatever the last one is."""

    def run(x: Any) -> Any:
        return F.batch_norm(x[:, : (x.shape[1] + 1) // 2], *torch.ones(4, 2))

    auto = torch.export.Dim.AUTO
    model = explorer.load(exported(run, (randn(5, 4, 7),), ({0: auto, 1: auto, 2: auto},)))
    compiled = explorer.compile(model)
    for shape in ((5, 4, 7), (3, 3, 2), (2, 4, 9)):
        x = randn(*shape)
        check(evaluate(model.program, {"x0": x.numpy()}), run(x))
        check(compiled.run({"x0": x.numpy()}), run(x))
    with pytest.raises(explorer.errors.IronworksError):
        compiled.run({"x0": randn(2, 6, 2).numpy()})


def test_symbols_run_through_shapes() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)

    def run(x: Any) -> Any:
        n = x.shape[0]
        return x.reshape(n // 1 * 2, -1).sum(1) + torch.arange(2 * n)

    model = explorer.load(exported(run, (randn(3, 4),), ({0: batch},)))
    for n in (1, 3, 7):
        x = randn(n, 4)
        check(evaluate(model.program, {"x0": x.numpy()}), run(x))
    assert str(model.inputs["x0"]) == "float32[batch, 4]"


@pytest.mark.parametrize("work", [check_program.MOST_WORK, 400])
def test_an_operator_that_computes_something_else_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, work: int
) -> None:
    """At load both are run on the inputs of the export, of long programs each kind of operator."""
    monkeypatch.setattr(check_program, "MOST_WORK", work)
    wrong = {**functionalize.OPERATORS, "tanh": functionalize.OPERATORS["sin"]}
    monkeypatch.setattr(functionalize, "OPERATORS", wrong)
    monkeypatch.setattr("explorer.frontends.torch.export._as_onnx", _no_onnx)
    program = exported(lambda x: torch.tanh(x * 2) + 1, (randn(3),))
    with pytest.raises(UnsupportedOperator, match=r"aten\.tanh at 'tanh' computes another result"):
        explorer.load(program)


def test_a_branch_that_computes_something_else_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = {**functionalize.OPERATORS, "tanh": functionalize.OPERATORS["sin"]}
    monkeypatch.setattr(functionalize, "OPERATORS", wrong)
    monkeypatch.setattr("explorer.frontends.torch.export._as_onnx", _no_onnx)
    program = exported(lambda x: torch.cond(x.sum() > 0, torch.tanh, torch.cos, (x,)), (randn(3),))
    program.example_inputs[0][0].abs_()
    with pytest.raises(UnsupportedOperator, match=r"cond at 'cond' computes another result"):
        explorer.load(program)


def _no_onnx(*_: Any) -> Any:
    raise UnsupportedOperator("ONNX is not asked")


def test_a_program_of_the_exporter_that_is_wrong_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By way of ONNX atan2 of integers is another number."""
    pytest.importorskip("onnxscript")
    monkeypatch.setattr("explorer.frontends.torch.export._by_operators", _no_onnx)
    program = exported(torch.atan2, (torch.tensor([0, 3]), torch.tensor([-1, -2])))
    with pytest.raises(UnsupportedOperator, match=r"other results|another result"):
        explorer.load(program)


def test_a_program_of_the_exporter_that_is_right_at_one_size_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows of an adaptive pool become those of the size of the export, also where that is the
    largest one that the dim may have.
    """
    pytest.importorskip("onnxscript")
    monkeypatch.setattr("explorer.frontends.torch.export._by_operators", _no_onnx)

    def run(x: Any) -> Any:
        return F.adaptive_avg_pool1d(x, 3)

    for wide in (torch.export.Dim("wide", min=3), torch.export.Dim("wide", min=3, max=9)):
        with pytest.raises(UnsupportedOperator, match="at other sizes than those of the export"):
            explorer.load(exported(run, (randn(2, 2, 9),), ({2: wide},)))
    assert explorer.load(exported(run, (randn(2, 2, 9),), ({0: dim("rows")},)))
