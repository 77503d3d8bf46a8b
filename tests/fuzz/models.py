"""Every option on whole models: `python -m tests.fuzz models [NAME ...]` holds each setting's
answers against those of the plain one, and says how far they are apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

import explorer
from explorer.errors import UnsupportedOperator
from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.compare import LEAST_ANSWER, TOLERANCE_SHARE, largest, largest_error
from tests.fuzz.settings import PLAIN, Setting, everywhere


@dataclass(frozen=True, slots=True)
class Row:
    """One model by one setting: the largest difference over the largest value, or what it said."""

    model: str
    setting: str
    apart: float
    said: str
    seconds: float

    @property
    def wrong(self) -> bool:
        """Whether this is a finding."""
        return bool(self.said) or not self.apart <= TOLERANCE_SHARE


def names() -> list[str]:
    """The models of the zoo."""
    return [f"zoo:{n}" for n in zoo.names()]


def rows(given: Sequence[str]) -> Iterator[Row]:
    """One row for each model and setting that runs here."""
    for name in given:
        model = explorer.load(name)
        plain = explorer.compile(model, PLAIN.device)
        inputs = random_inputs(model.program, plain.hint)
        right = plain.run(inputs)
        for setting in everywhere():
            if setting.until == "emitted":
                yield _row(name, model, setting, inputs, right)


def _row(
    name: str,
    model: Model,
    setting: Setting,
    inputs: dict[str, np.ndarray],
    right: dict[str, np.ndarray],
) -> Row:
    start, said, apart = perf_counter(), "", 0.0
    try:
        found = explorer.compile(model, setting.device, setting.options).run(inputs)
        apart = max(_apart(found[n], a) for n, a in right.items())
    except Exception as problem:
        package = "onnx" in setting.options.relax.dispatch  # whose evaluator does not know them all
        if not (package and isinstance(problem, UnsupportedOperator)):
            said = f"{type(problem).__name__}: {problem}"
    return Row(Path(name).stem, setting.name, apart, said, perf_counter() - start)


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else float("inf")
    return largest_error(a, b) / max(largest(b), LEAST_ANSWER)


def main(given: Sequence[str]) -> int:
    """The exit code: 1 where any two are apart."""
    found = []
    for row in rows(given or names()):
        found.append(row)
        if row.wrong:
            print(f"{row.model}, {row.setting}: {row.apart:.2g} {row.said}", flush=True)
        if len(found) > 1 and found[-2].model != row.model:
            print(_told([r for r in found if r.model == found[-2].model]), flush=True)
    if found:
        print(_told([r for r in found if r.model == found[-1].model]))
        print(f"{len(found)} compilations, {sum(r.wrong for r in found)} apart")
    return int(any(r.wrong for r in found))


def _told(of_one: Sequence[Row]) -> str:
    worst = max(of_one, key=lambda r: r.apart)
    seconds = sum(r.seconds for r in of_one)
    return (
        f"{worst.model}: {len(of_one)} settings, at most {worst.apart:.2g} of the largest value "
        f"apart ({worst.setting}), {seconds:.0f} s"
    )
