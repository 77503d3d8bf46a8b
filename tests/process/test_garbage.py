"""What is compiled is collected less often, and afterwards as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from explorer.process.garbage import YOUNG, rare_collections


@pytest.fixture(autouse=True)
def as_python_begins() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_collector_is_as_it_was_after_the_block_even_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), rare_collections():
        assert gc.get_freeze_count() and gc.get_threshold()[0] == YOUNG
        with rare_collections():
            pass
        assert gc.get_freeze_count() and gc.get_threshold()[0] == YOUNG
        raise ZeroDivisionError
    assert gc.get_threshold() == before and not gc.get_freeze_count()


def test_a_collector_that_is_off_or_frozen_by_somebody_else_is_left_alone() -> None:
    before = gc.get_threshold()
    gc.disable()
    try:
        with rare_collections():
            assert not gc.get_freeze_count()
    finally:
        gc.enable()
    gc.freeze()
    try:
        with rare_collections():
            assert gc.get_threshold() == before
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
