"""A model for other runtimes: alternative forms, and constant attributes of layout operators.

Forms are timed, so that a race is against another runtime's fastest one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Protocol, TypeVar

import numpy as np

from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.ops.record import Site
from explorer.relax import deduce
from explorer.transforms.simplify.fold_constants import fold_constants
from explorer.transforms.simplify.redundancy import remove_dead_code
from explorer.transforms.simplify.substitution import bind_symbols

ROUNDS, SECONDS = 15, 2.0  # of trials in turns; the least time of each form counts
LONG_SECONDS = 0.1  # runs from this length on are timed without a warm-up
SEED = re.compile(rb"seed (\d+)\Z")  # end of a zoo model's head
LAYERED = "LSTM operators"


class ModelForm(Protocol):
    """A model that is ready to run in one form."""

    @property
    def run(self) -> Callable[[], object]:
        """The function that runs it."""


F = TypeVar("F", bound=ModelForm)


def forms(model: Model) -> Iterator[tuple[str, Model]]:
    """Yield the model itself, named "", and its layered form if it has one.

    A recurrent model of the zoo has a form with one operator for each layer: the same weights,
    inputs and outputs.
    """
    yield "", model
    name = f"{zoo.LAYERED}{model.path.removeprefix(zoo.PREFIX)}"
    if model.path.startswith(zoo.PREFIX) and name in zoo.OTHER_FORMS:
        yield LAYERED, zoo.load(name, seed=seed_of(model))


def seed_of(model: Model) -> int:
    """Return the seed of a zoo model's weights."""
    match = SEED.search(model.head)
    return int(match[1]) if match else 0


def fastest_first(candidates: Iterable[F]) -> list[F]:
    """Sort forms by the least time of a run, fastest first, timed in turns."""
    times: list[tuple[F, list[float]]] = [(form, []) for form in candidates]
    if len(times) < 2:
        return [form for form, _ in times]
    for form, _ in times:
        form.run()
    end = perf_counter() + SECONDS
    for n in range(ROUNDS):
        if n and perf_counter() > end:
            break
        for form, samples in times:
            if samples and min(samples) < LONG_SECONDS:
                form.run()  # after another form, the first is slower
            begin = perf_counter()
            form.run()
            samples.append(perf_counter() - begin)
    return [form for form, samples in sorted(times, key=lambda t: min(t[1]))]


def specialise(program: Program, sizes: Sizes) -> Program:
    """Return the program for these sizes, with everything independent of inputs folded.

    Shapes and masks are no operators in a PyTorch user's model.
    """
    bound_sizes = {name: sizes[name] for name in program.env.hints if name in sizes}
    bound = bind_symbols(program, bound_sizes) if bound_sizes else program
    return remove_dead_code(fold_constants(deduce(bound)))


def constant_integers(site: Site, position: int, name: str = "") -> tuple[int, ...] | None:
    """Return integers from an attribute or a constant argument, None if neither is given."""
    integers = site.integers(name) if name else None
    if integers is not None or not site.has(position):
        return integers
    value = site.values[position]
    return None if value is None else tuple(int(n) for n in np.ravel(value))


def static_integers(site: Site, position: int, name: str) -> tuple[int, ...] | None:
    """Return such integers, for values that must be constant.

    Raises UnsupportedOperator if only a run determines them.
    """
    integers = constant_integers(site, position, name)
    if integers is None and site.has(position):
        site.unsupported(f"needs its {name} before the run")
    return integers


def border(site: Site) -> tuple[list[tuple[int, int]], float]:
    """Return the widths before and behind each axis of a Pad, and the fill value.

    Raises UnsupportedOperator for other modes and for widths that only a run determines.
    """
    if site.text("mode", "constant") != "constant" or site.has(3) or site.attrs.get("axes"):
        site.unsupported("does not fill all around with one value")
    pads = constant_integers(site, 1, "pads")
    if pads is None:
        site.unsupported("needs its widths before the run")
    value = site.values[2] if site.has(2) else None
    fill = site.number("value", 0.0) if value is None else float(value.item())
    return list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :])), fill


def bilinear_sizes(site: Site) -> tuple[int, int]:
    """Return the target height and width of a bilinear Resize with half-pixel centres.

    Raises UnsupportedOperator for other forms.
    """
    half = site.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    sizes = constant_integers(site, 3, "sizes")
    if site.text("mode", "nearest") != "linear" or not half or sizes is None:
        site.unsupported("is no bilinear one to known sizes")
    if len(sizes) not in (2, 4) or site.integers("axes", (2, 3)) != (2, 3):
        site.unsupported("is not of height and width alone")
    return sizes[-2], sizes[-1]
