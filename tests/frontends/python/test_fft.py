"""`explorer.np.fft` and complex arrays give what NumPy gives, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import IronworksError
from explorer.frontends.model import Model
from explorer.ir.text.program_text import parse_program, print_program
from tests.transforms.autodiff.finite import differences

Function = Callable[..., Any]
NORMS = (None, "backward", "ortho", "forward")


def real(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def complex_(*shape: int, dtype: str = "complex64") -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def traced(function: Function, *arrays: np.ndarray, named: bool = False) -> Model:
    """The model of a function of the inputs args.0, args.1, ..; `named`: their extents are
    symbols.
    """

    def model(args: Any) -> Any:
        return function(*args)

    def kind(a: np.ndarray) -> Any:
        dims = [f"d{i}" for i in range(a.ndim)] if named else a.shape
        return explorer.tensor(a.dtype, *dims)

    return explorer.trace(model)(args=tuple(map(kind, arrays)))


def evaluated(model: Model, *arrays: np.ndarray) -> list[np.ndarray]:
    """The outputs of the reference interpreter, complex ones joined."""
    inputs: dict[str, np.ndarray] = {}
    for n, a in enumerate(arrays):
        parts = {f"args.{n}.real": a.real, f"args.{n}.imag": a.imag}
        inputs |= parts if f"args.{n}" in model.complex_inputs else {f"args.{n}": a}
    found = explorer.evaluate(model.program, inputs)
    return [*joined(found, model).values()]


def joined(found: dict[str, np.ndarray], model: Model) -> dict[str, np.ndarray]:
    for name in model.complex_outputs:
        real, imag = found[f"{name}.real"], found.pop(f"{name}.imag")
        pair = np.empty(real.shape, np.result_type(real, np.complex64))
        pair.real, pair.imag = real, imag
        found[f"{name}.real"] = pair
    return found


def same(found: Any, wanted: Any, what: str = "", of: Any = "float64") -> None:
    """Close for their dtype; NumPy scales transforms `of` float16 by factors of float16."""
    assert found.dtype == wanted.dtype, what
    assert found.shape == wanted.shape, what
    loose = wanted.dtype in ("float32", "complex64")
    limit = 2e-3 if of == "float16" else 2e-5 if loose else 1e-11
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit, err_msg=what)


def check(function: Function, *arrays: np.ndarray, named: bool = False) -> None:
    """Interpreted, a function of one result gives what it gives on NumPy's arrays."""
    (found,) = evaluated(traced(function, *arrays, named=named), *arrays)
    same(found, np.asarray(function(*arrays)), of=arrays[0].dtype)


# Transforms along one dim.

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_COMPLEX = ("fft", "ifft", "irfft", "hfft")


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("extent", [1, 2, 7, 8, 12])
def test_lengths_norms_and_axes_are_numpys(name: str, extent: int) -> None:
    of = getattr(xp.fft, name)
    x, z = real(3, extent), complex_(extent, 2)
    for n in (None, 1, 5, 6, 12):
        if extent == 1 and n is None and name in ("irfft", "hfft"):
            continue  # of no points, which NumPy refuses
        for norm in NORMS:
            check(lambda x, n=n, norm=norm: of(x, n, norm=norm), x)
            if name in OF_COMPLEX:
                check(lambda z, n=n, norm=norm: of(z, n=n, axis=0, norm=norm), z)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "bool"])
def test_dtypes_are_numpys(name: str, dtype: str) -> None:
    x = (4 * real(2, 9)).astype(dtype)
    check(getattr(xp.fft, name), x)


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_complex128_stays_complex128(name: str) -> None:
    check(getattr(xp.fft, name), complex_(3, 10, dtype="complex128"))


@pytest.mark.parametrize("name", ONE)
def test_one_compilation_serves_every_length(name: str) -> None:
    of = getattr(xp.fft, name)

    def both(x: Any) -> Any:
        return of(x), of(x, 6, 0), of(x, 2 * x.shape[0], norm="ortho")

    compiled = explorer.compile(traced(both, real(1, 1), named=True))
    for shape in ((3, 5), (4, 8), (2, 9)):
        x = real(*shape)
        for found, wanted in zip(compiled.run(x).values(), both(x), strict=True):
            same(found, wanted, f"{name} of {shape}")


# Transforms along several dims.


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(
    ("s", "axes"),
    [
        (None, None),
        (None, (0,)),
        (None, (-1, 0)),
        ((3, 6), (0, 2)),
        ((5, 7), (-2, -1)),
        ((4, -1), (1, 2)),
    ],
)
def test_several_axes_are_numpys(name: str, s: Any, axes: Any) -> None:
    of = getattr(xp.fft, name)
    for norm in (None, "ortho", "forward"):
        check(lambda x, norm=norm: of(x, s, axes, norm), real(4, 3, 6))
        if name != "rfftn":
            check(lambda z, norm=norm: of(z, s=s, axes=axes, norm=norm), complex_(4, 3, 6))


def test_an_image_of_any_size_is_filtered_by_its_spectrum() -> None:
    def blurred(x: Any) -> Any:
        h, w = x.shape
        down, along = xp.fft.fftfreq(h), xp.fft.rfftfreq(w)
        keep = xp.exp(-8 * (down[:, None] ** 2 + along**2))
        return xp.fft.irfftn(xp.fft.rfftn(x) * keep, s=(h, w), axes=(0, 1))

    model = traced(blurred, real(1, 1, dtype="float64"), named=True)
    for shape in ((4, 6), (5, 7)):
        x = real(*shape, dtype="float64")
        same(evaluated(model, x)[0], blurred(x))


# Frequencies.


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_frequencies_and_shifts_are_numpys(n: int) -> None:
    def model(x: Any) -> Any:
        n = x.shape[0]
        return (
            xp.fft.fftfreq(n),
            xp.fft.fftfreq(n, 0.1),
            xp.fft.rfftfreq(n, d=2.0),
            xp.fft.fftfreq(n, dtype="float32") + xp.fft.fftfreq(5, dtype="float32")[0],
            xp.fft.fftshift(x),
            xp.fft.ifftshift(x, axes=1),
            xp.fft.ifftshift(xp.fft.fftshift(xp.fft.fft(x, axis=0)), (0, 1)),
        )

    x = real(n, 5)
    for named in (False, True):
        found = evaluated(traced(model, x, named=named), x)
        for got, wanted in zip(found, model(x), strict=True):
            same(got, wanted)


# Complex arrays.

Z, W = complex_(3, 4), complex_(3, 4)[::-1] + 1
ARITHMETIC: dict[str, Function] = {
    "add": lambda z, w, x: z + w + x + 1 + 2j + (x + 1j) + (2j + x) + np.ones(4, "complex64"),
    "subtract": lambda z, w, x: z - w - x - 1j - (1 - z) - (x - z) - (3j - x),
    "multiply": lambda z, w, x: z * w * x * 2 * (1 + 2j) * (x * 1j),
    "divide": lambda z, w, x: z / w / 2 + x / w + 1 / z + z / (2 + 1j) + z / x,
    "negative": lambda z, w, x: -z + +w,
    "abs": lambda z, w, x: abs(z) + xp.absolute(w) + np.abs(z * 2),
    "angle": lambda z, w, x: xp.angle(z) + xp.angle(x) + np.angle(w, deg=True),
    "conj": lambda z, w, x: z.conj() + xp.conj(w) + np.conj(z * 3),
    "exp": lambda z, w, x: xp.exp(z) + xp.exp(1j * x),
    "parts": lambda z, w, x: z.real * w.imag + xp.real(z) + xp.imag(w) + x.real + x.imag,
    "equal": lambda z, w, x: (z == w) | (z * 0 + x == x) | (z != z.conj()),
    "where": lambda z, w, x: xp.where(x > 0, z, w) + xp.where(x > 0, z, 0),
    "index": lambda z, w, x: z[1] * w[:, ::-2][0, 0] + z[..., None][2, :, 0] + xp.take(z, 0, 0),
    "shapes": lambda z, w, x: z.reshape(2, -1)[:, :3].flatten() + xp.expand_dims(w, 0)[0, 0, 0],
    "order": lambda z, w, x: z.T.transpose()[None].squeeze(0).swapaxes(0, 1).ravel(),
    "join": lambda z, w, x: xp.concatenate([z, x]) + xp.stack([z, w])[0].copy()[0],
    "sums": lambda z, w, x: z.sum(1) + z.mean() + xp.sum(w, axis=0)[:3],
    "dtypes": lambda z, w, x: z.astype("complex128") + x.astype("complex64") + np.float64(1),
    "wider": lambda z, w, x: z + x.astype("float64") * w + x.astype("int8"),
    "named": lambda z, w, x: np.fft.fft(xp.asarray(z)) + np.fft.fft(x, axis=0),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_complex_arrays_mean_numpys(name: str) -> None:
    check(ARITHMETIC[name], Z, W, real(3, 4))


def test_division_neither_overflows_nor_loses_what_is_small() -> None:
    z = np.array([1e30 + 1e30j, 1e-30 + 2e-30j, 3j, 1 + 1j], "complex64")
    w = np.array([2e30 - 1e30j, 1e-30j, 2, 0], "complex64")
    with np.errstate(all="ignore"):
        wanted = z / w
    (found,) = evaluated(traced(lambda z, w: z / w, z, w), z, w)
    same(found[:3], wanted[:3])
    assert not np.isfinite(found[3])


def test_what_a_complex_array_is_can_be_asked() -> None:
    def model(z: Any) -> Any:
        assert (z.shape, z.ndim, z.size, len(z)) == ((3, 4), 2, 12, 3)
        assert z.dtype == np.complex64 and xp.shape(z) == (3, 4) and xp.ndim(z) == 2
        assert (z.real.dtype, abs(z).dtype, (z + 1).dtype) == ("float32", "float32", "complex64")
        return [row * 2 for row in z]

    rows = evaluated(traced(model, Z), Z)
    same(np.stack(rows), Z * 2)


def test_complex_arrays_are_inputs_and_outputs_of_what_is_compiled() -> None:
    @explorer.trace
    def model(
        z: explorer.tensor("complex64", "n", 4), x: explorer.tensor("float32", "n", 4)
    ) -> Any:
        return {"spectrum": xp.fft.fft(z * x), "power": abs(z) ** 2, "pair": (z, z.imag)}

    loaded = explorer.load(model)
    assert (*loaded.inputs,) == ("z.real", "z.imag", "x")
    assert loaded.complex_inputs == ("z",)
    compiled = explorer.compile(loaded)
    for n in (1, 3):
        z, x = complex_(n, 4), real(n, 4)
        found = compiled.run(z, x)
        assert (*found,) == ("spectrum", "power", "pair.0", "pair.1")
        wanted = model(z, x)
        for got, want in zip(found.values(), (*wanted.values(),)[:2]):
            same(got, want)
        same(found["pair.0"], z)
        named = compiled.run({"x": x, "z": z})
        parts = compiled.run({"z.real": z.real, "z.imag": z.imag, "x": x})
        np.testing.assert_array_equal(named["spectrum"], found["spectrum"])
        np.testing.assert_array_equal(parts["spectrum"], found["spectrum"])
    out = {"spectrum.real": np.empty((3, 4), "float32")}
    places = compiled.run(z, x, out=out)
    np.testing.assert_array_equal(out["spectrum.real"], found["spectrum"].real)
    assert places["spectrum.real"] is out["spectrum.real"] and "spectrum.imag" in places
    number = np.asarray(z[0, 0])
    one = explorer.compile(traced(lambda z: 1j * z, number)).run(number)
    assert (*one,) == ("output",)
    same(one["output"], 1j * number)


def test_complex_arrays_go_through_branches_and_loops() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", 8)) -> Any:
        z = xp.fft.fft(x)
        if x.sum() > 0:
            z = z * 1j
        for _ in range(3):
            z = xp.fft.fftshift(z) + 1
        while abs(z).max() > 1:
            z = z / 2
        return z

    for x in (real(8), -real(8)):
        loaded = explorer.load(model)
        found = joined(explorer.evaluate(loaded.program, {"x": x}), loaded)
        same(found["output.real"], model.run(x))


# Gradients.


@pytest.mark.parametrize("extent", [7, 8, 12])
def test_gradients_of_spectra_are_differences(extent: int) -> None:
    weights = np.arange(1.0, extent + 1)

    def loss(x: Any) -> Any:
        spectrum = xp.fft.fft(x, norm="ortho")
        half = xp.fft.rfft(x, extent + 3)
        back = xp.fft.irfft(half * xp.fft.ifft(x, half.shape[-1])[1], extent)
        sizes = abs(spectrum) * weights
        return sizes.sum() + xp.angle(half[..., 1]).sum() + (back**3 / (1 + sizes)).sum()

    x = real(2, extent, dtype="float64")
    wanted = differences(loss, [x], 0)
    found = explorer.grad(loss)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    compiled = explorer.compile(traced(explorer.grad(loss).run, x))
    np.testing.assert_allclose(compiled.run(x)["output"], found, rtol=1e-9, atol=1e-9)


def test_the_size_of_a_spectrum_whose_parts_are_equal_has_a_gradient() -> None:
    """Both parts of the second and fourth frequency are of one size, the first has no second."""
    x = np.array([0.0, 1, 0, 0, 0, 0, 0, 0])

    def loss(x: Any) -> Any:
        return (abs(xp.fft.fft(x)) * np.arange(1.0, 9)).sum()

    wanted = differences(loss, [x], 0)
    np.testing.assert_allclose(explorer.grad(loss)(x), wanted, rtol=1e-6, atol=1e-6)


def test_the_gradient_by_a_complex_array_is_complex() -> None:
    def loss(z: Any) -> Any:
        return (abs(xp.fft.fft(z)) ** 2 * np.arange(1.0, 5)).sum()

    z = complex_(4, dtype="complex128")
    by_parts = [
        differences(lambda p, part=part: loss(z + part * p), [np.zeros(4)], 0) for part in (1, 1j)
    ]
    found = explorer.grad(loss)(z)
    np.testing.assert_allclose(found, by_parts[0] + 1j * by_parts[1], rtol=1e-6, atol=1e-6)


# The text, and what is refused.


def test_every_function_of_the_namespace_is_the_standards() -> None:
    assert set(xp.fft.__all__) == {
        "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft",
        "fftfreq", "rfftfreq", "fftshift", "ifftshift",
    }  # fmt: skip
    x = real(3, 4)
    np.testing.assert_array_equal(xp.fft.fft(x), np.fft.fft(x))
    assert xp.fft.fftfreq(5).tolist() == np.fft.fftfreq(5).tolist()


def test_programs_with_complex_arrays_are_printed_and_read_back() -> None:
    program = traced(lambda z: xp.fft.irfft(z, 2 * z.shape[1]), Z, named=True).program
    assert parse_program(print_program(program), program.constants) == program


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda z, x: xp.fft.rfft(z), "this one is complex"),
        (lambda z, x: xp.fft.fft(x, 0), "a positive number of points, not 0"),
        (lambda z, x: xp.fft.fft(x, norm="both"), "no norm 'both'"),
        (lambda z, x: xp.fft.fft(x, axis=2), "axis 2 is out of range"),
        (lambda z, x: xp.fft.fftn(x, (4,), (0, 1)), "1 numbers of points for 2 axes"),
        (lambda z, x: xp.tanh(z), "tanh takes no complex arrays in a trace"),
        (lambda z, x: z < 1, "less takes no complex arrays"),
        (lambda z, x: z @ x.T, "matmul takes no complex arrays"),
        (lambda z, x: xp.linalg.inv(x @ x.T + 1j), "inv takes no complex arrays"),
        (lambda z, x: z.astype("float32"), "complex numbers do not become float32"),
        (lambda z, x: x.__iadd__(1j), "do not become complex"),
        (lambda z, x: explorer.grad(lambda x: xp.fft.fft(x).sum())(x), "gives a complex number"),
        (lambda z, x: z if z.sum() else x, "known only at run time"),
        (
            lambda z, x: explorer.function(inputs={"y": explorer.tensor("complex64", 3)})(
                lambda y: y
            )(x),
            "explorer.function takes real arrays",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(function: Function, sentence: str) -> None:
    with pytest.raises(IronworksError, match=sentence):
        traced(function, Z, real(3, 4))
