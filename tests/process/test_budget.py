"""What one model may take is judged in bytes before it is taken, and a refusal says all four: what,
how much, how much there is, and what to try.
"""

import pytest

from explorer.errors import BadOption, TooLarge
from explorer.process import budget
from explorer.process.budget import check_room, size_text


@pytest.mark.parametrize(
    ("said", "count"),
    [("2GiB", 2 << 30), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("77", 77), ("9k", 9000)],
)
def test_the_variable_says_how_much(said: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", said)
    assert budget.budget() == count


@pytest.mark.parametrize("said", ["much", "0", "-1", "2 GiB or so", "1e9", "9" * 400, "२GiB"])
def test_a_variable_that_is_no_size_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", said)
    with pytest.raises(BadOption, match="IRONWORKS_MEMORY is a size such as 2GiB"):
        budget.budget()


def test_a_refusal_names_the_thing_its_size_the_budget_and_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", "1MiB")
    check_room(1 << 20, "'y'")
    with pytest.raises(TooLarge) as raised:
        check_room(3 << 20, "'y', float32[786432],", "y")
    fields = raised.value.fields()
    assert fields["sentence"] == ("'y', float32[786432], takes 3 MiB, and one model may take 1 MiB")
    assert fields["where"] == "y" and fields["found"] == f"{3 << 20} bytes"
    assert "IRONWORKS_MEMORY" in fields["try"]


def test_without_the_variable_it_is_a_share_of_what_this_process_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("IRONWORKS_MEMORY", raising=False)
    monkeypatch.setattr(budget, "memory_bytes", lambda: 64 << 30)
    budget._total_bytes.cache_clear()
    assert budget.budget() == 48 << 30
    budget._total_bytes.cache_clear()


def test_sizes_read_well() -> None:
    said = [size_text(n) for n in (0, 1023, 1 << 20, 3 << 29, 10**9, 5 << 40, 1 << 70)]
    assert said == [
        "0 B",
        "1023 B",
        "1 MiB",
        "1.5 GiB",
        "954 MiB",
        "5 TiB",
        "more than a million TiB",
    ]
