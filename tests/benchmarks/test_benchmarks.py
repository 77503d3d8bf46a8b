"""Every benchmark is listed with a sentence, and says how it is run."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.benchmarks.__main__ import benchmarks, main


def test_every_benchmark_is_listed_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name, sentence in benchmarks().items():
        assert sentence.endswith("."), f"{name} begins with no sentence in one line"
        assert name in listed and sentence in listed
    assert {"kernel_table", "tile_search", "gpu", "course"} <= benchmarks().keys()


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_prints_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        import_module(f"tests.benchmarks.{name}").main(["--help"])
    assert end.value.code == 0 and "usage: " in capsys.readouterr().out


def test_an_unknown_name_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nothing"]) == 2
    assert "'nothing'; there are browser, compile_time, " in capsys.readouterr().err
