"""Rows of benchmarks: ratios over our time, a table, and JSON that is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt

import pytest

from explorer.errors import BadOption
from tests.benchmarks import rows
from tests.benchmarks.rows import Row, line_of, over_peers, report, row_of, series_of, timed
from tests.measure.simulated import Counted, NoisyMachine

ROUNDS = 20


def a_row(case: str = "a", peer: float = 2.0, slow: float = 9.0) -> Row:
    """Return a row of exact times: the fast variant takes 1 ms, the other 1.5."""
    times = {"slow": 1.5, "fast": 1.0}
    peers = {"numpy": slow, "torch": peer}
    series = [{n: series_of([[t / 1e3]] * ROUNDS) for n, t in x.items()} for x in (times, peers)]
    return row_of(case, *series, skipped={"jax": "not installed"}, details={"threads": 2})


def test_ratios_are_over_the_fastest_variant_and_the_fastest_peer_counts() -> None:
    row = a_row(peer=2.0)
    assert row.base == "fast" and row.fastest_peer == "torch"
    assert {n: r.median for n, r in row.ratios.items()} == pytest.approx(
        {"slow": 1.5, "numpy": 9.0, "torch": 2.0}
    )
    assert row.variants["fast"].median == pytest.approx(1e-3) and row.verdict == "faster"
    alone = replace(row, peers={})
    assert (alone.fastest_peer, alone.ratio, alone.verdict) == (None, None, rows.NO_PEER)


def test_a_named_variant_is_the_base_also_where_it_is_slower() -> None:
    series = {n: series_of([[t]] * ROUNDS) for n, t in {"welded": 2.0, "unwelded": 1.0}.items()}
    row = row_of("a", series, base="welded")
    assert row.ratios["unwelded"].median == pytest.approx(0.5)
    assert "slower than unwelded: 0.50x (0.50 to 0.50)" in line_of(row)


def test_functions_take_turns_on_a_machine_that_is_at_rest() -> None:
    noisy, watch = NoisyMachine(3), Counted()
    works = {"ours": noisy.work(900.0)}, {"theirs": noisy.work(1800.0)}
    row = timed("a", *works, 0.0, clock=noisy.clock, watch=watch)
    assert watch.begun == watch.ended == 40
    low, high = row.ratios["theirs"].low, row.ratios["theirs"].high
    assert low <= row.ratios["theirs"].median <= high
    assert row.ratios["theirs"].median == pytest.approx(2.0, rel=0.1)
    with pytest.raises(BadOption, match="seconds must be a time"):
        timed("a", *works, float("nan"))


def test_a_row_is_read_as_it_was_written() -> None:
    row = a_row()
    assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row


def test_means_are_geometric_and_name_who_is_behind() -> None:
    found = over_peers([a_row("a", 2.0), a_row("b", 0.5)])
    assert found["over_fastest_peer"] == pytest.approx(1.0) and found["under_1"] == ["b"]
    assert found["over"] == pytest.approx({"slow": 1.5, "numpy": 9.0, "torch": 1.0})
    assert over_peers([])["over_fastest_peer"] is None
    assert rows.mean([2.0, 4.0]) == pytest.approx(sqrt(8)) and rows.mean([]) is None


def test_rows_are_printed_as_they_come_and_then_as_a_table_or_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [a_row("a"), replace(a_row("b"), peers={})]
    assert report(iter(rows), columns=("threads",)) == rows
    out, err = capsys.readouterr()
    head, _, first, second, *rest = out.splitlines()
    assert head.split()[:4] == ["case", "threads", "slow", "fast"]
    assert "1.50 ms (1.50x)" in first and "faster than torch: 2.00x (2.00 to 2.00)" in first
    assert second.split()[0] == "b" and "over_fastest_peer: 2" in rest
    assert "b: slow 1.50 ms" in err and "jax left out: not installed" in err
    report(rows, as_json=True)
    assert [r["ratio"] for r in json.loads(capsys.readouterr().out)["rows"]][1] is None


def test_numbers_of_threads_are_positive() -> None:
    assert rows.parser_of("", threads="1,2").parse_args([]).threads == (1, 2)
    with pytest.raises(SystemExit):
        rows.parser_of("", threads="1").parse_args(["--threads", "0"])
