"""Alternative forms of a model, so that a race is against another runtime's fastest one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Protocol, TypeVar

from explorer.frontends import zoo
from explorer.frontends.model import Model

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
