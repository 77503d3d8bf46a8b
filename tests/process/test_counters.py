"""Counts rise, in any thread, and a block can ask for its own."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

from explorer.process.counters import Counters, Counts, counters


def test_a_count_reads_as_an_attribute() -> None:
    own = Counters()
    own.add("kernel_compiles")
    own.add("kernel_compiles", 2)
    assert own.kernel_compiles == 3
    assert own.snapshot() == Counts(kernel_compiles=3)


def test_a_block_counts_what_it_did_and_then_stands_still() -> None:
    own = Counters()
    own.add("pass_runs")
    with own.delta() as did:
        assert did.pass_runs == 0
        own.add("pass_runs", 4)
        assert did.pass_runs == 4
    own.add("pass_runs")
    assert did.pass_runs == 4
    assert did.counts == Counts(pass_runs=4)


def test_a_block_that_fails_has_counted() -> None:
    own = Counters()
    with pytest.raises(RuntimeError), own.delta() as did:
        own.add("runs")
        raise RuntimeError
    assert did.runs == 1


def test_a_count_that_nobody_keeps_is_refused() -> None:
    own = Counters()
    with pytest.raises(KeyError):
        own.add("kernel_compile")
    with pytest.raises(AttributeError, match="kernel_compile"):
        _ = own.kernel_compile
    with own.delta() as did, pytest.raises(AttributeError):
        _ = did.kernel_compile


def test_no_count_is_lost_between_threads() -> None:
    own = Counters()

    def work(_: int) -> None:
        for _ in range(1000):
            own.add("host_reads")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert own.host_reads == 8000


def test_the_process_has_one_set_of_counters_that_shows_itself() -> None:
    with counters.delta() as did:
        counters.add("walls_planned")
    assert did.walls_planned == 1
    assert "walls_planned=" in repr(counters)
    assert "walls_planned" in dir(counters)


def test_copying_half_made_counters_does_not_recurse() -> None:
    with pytest.raises(TypeError):  # a lock cannot be copied
        copy.deepcopy(Counters())
    with pytest.raises(AttributeError):
        _ = Counters.__new__(Counters).runs
