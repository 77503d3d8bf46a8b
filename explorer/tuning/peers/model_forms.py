"""In which forms another runtime may be given a model, so that a race is against its best one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Protocol, TypeVar

from explorer.frontends import zoo
from explorer.frontends.model import Model

ROUNDS, SECONDS = 15, 2.0  # of trials, in turns: the least time of each form counts
LONG_SECONDS = 0.1  # of a run that is timed without another one before it
SEED = re.compile(rb"seed (\d+)\Z")  # how the zoo ends the head of its models
LAYERED = "LSTM operators"


class Form(Protocol):
    """A model made ready in one way."""

    @property
    def run(self) -> Callable[[], object]: ...


F = TypeVar("F", bound=Form)


def forms(model: Model) -> Iterator[tuple[str, Model]]:
    """The model itself, named "", and where it is a recurrent one of the zoo, the one with an
    operator for each layer: the same weights, inputs and outputs.
    """
    yield "", model
    name = f"{zoo.LAYERED}{model.path.removeprefix(zoo.PREFIX)}"
    if model.path.startswith(zoo.PREFIX) and name in zoo.OTHER_FORMS:
        yield LAYERED, zoo.load(name, seed=seed_of(model))


def seed_of(model: Model) -> int:
    """From which a model of the zoo was drawn."""
    found = SEED.search(model.head)
    return int(found[1]) if found else 0


def in_order(made: Iterable[F]) -> list[F]:
    """The forms by the least time of a run, the fastest first, timed in turns."""
    times: list[tuple[F, list[float]]] = [(form, []) for form in made]
    if len(times) < 2:
        return [form for form, _ in times]
    for form, _ in times:
        form.run()
    end = perf_counter() + SECONDS
    for n in range(ROUNDS):
        if n and perf_counter() > end:
            break
        for form, found in times:
            if found and min(found) < LONG_SECONDS:
                form.run()  # after another form, the first is slower
            begin = perf_counter()
            form.run()
            found.append(perf_counter() - begin)
    return [form for form, found in sorted(times, key=lambda t: min(t[1]))]
