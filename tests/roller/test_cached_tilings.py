"""The best tiling alone is found with less work, and the rest from where that stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import explorer
from explorer import cache
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.roller import cached_tilings
from explorer.roller.cached_tilings import FOLDERS, best_tiling, best_tilings
from explorer.welder import tune_merges as tune
from tests.codegen.cases import CASES, ENV
from tests.roller.test_policy import DEVICE, SIZES

KERNELS = [canonical(normalise(c.kernel))[0] for c in CASES[:6]]


@pytest.fixture(autouse=True)
def forgetful(own_cache: object) -> Iterator[None]:
    """Nothing was found before."""
    cache.memory("roller").clear()
    cached_tilings._partial_results.clear()
    yield
    cache.memory("roller").clear()
    cached_tilings._partial_results.clear()


def first(kernel: Kernel) -> Candidate | None:
    return best_tiling(kernel, DEVICE, ENV, SIZES, 4)


def every(kernel: Kernel) -> tuple[Candidate, ...]:
    return best_tilings(kernel, DEVICE, ENV, SIZES, 4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_best_tiling_is_the_first_of_all_in_whatever_order_they_are_asked_for(
    kernel: Kernel,
) -> None:
    alone = first(kernel)
    rest = every(kernel)
    assert alone == rest[0]
    cache.memory("roller").clear()
    cached_tilings._partial_results.clear()
    assert first(kernel) == alone and every(kernel) == rest  # from disk
    forgotten = cache.clear()
    assert forgotten >= 2
    cache.memory("roller").clear()
    assert every(kernel) == rest and first(kernel) == alone


def test_each_policy_has_its_own_tilings() -> None:
    (other,) = set(cached_tilings.POLICIES) - {cached_tilings.DEFAULT}
    for kernel in KERNELS:
        alone = best_tilings(kernel, DEVICE, ENV, SIZES, 4, other)
        cache.clear()
        cache.memory("roller").clear()
        every(kernel)
        assert best_tilings(kernel, DEVICE, ENV, SIZES, 4, other) == alone
    assert any(every(k) != best_tilings(k, DEVICE, ENV, SIZES, 4, other) for k in KERNELS)


def test_what_was_weighed_for_the_best_is_not_weighed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    known = cached_tilings.POLICIES[cached_tilings.DEFAULT]

    def counted(*args: object) -> Iterator[Candidate]:
        for candidate in known(*args):  # type: ignore[arg-type]
            asked.append(candidate)
            yield candidate

    monkeypatch.setattr(cached_tilings, "POLICIES", {cached_tilings.DEFAULT: counted})
    kernel = KERNELS[0]
    first(kernel)
    assert len(asked) == 1
    found = every(kernel)
    assert len(asked) == len(found) > 1


@pytest.mark.parametrize("asked", [("roller", FOLDERS), ("welder", tune.FOLDERS)])
def test_what_was_found_is_kept_under_all_code_that_it_was_found_by(
    asked: tuple[str, tuple[str, ...]],
) -> None:
    """Devices are in the key by what they are; errors and the cache decide nothing."""
    system, folders = asked
    files = (Path(explorer.__file__).parent / system).rglob("*.py")
    texts = [file.read_text(encoding="utf-8") for file in files]
    used = {name for text in texts for name in re.findall(r"^from explorer\.(\w+)", text, re.M)}
    assert used - {"devices", "errors", "process", "cache", "cached_property"} <= {*folders}
