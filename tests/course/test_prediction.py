"""Predictions of any kind beside results of any kind, on the screen and in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer import course
from explorer.course.prediction import LOG_VARIABLE


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        (6, 12, "You said 6 (0.5 times it); it is 12."),
        (6, np.int64(12), "You said 6 (0.5 times it); it is 12."),
        (0.25, np.float32(0.5), "You said 0.25 (0.5 times it); it is 0.5."),
        (1, 0, "You said 1; it is 0."),
        (1, "m + 4", "You said 1; it is m + 4."),
        ("none", 1.5, "You said none; it is 1.5."),
        ("16 x 16", "8 x 32", "You said 16 x 16; it is 8 x 32."),
        (True, 3, "You said True; it is 3."),
        (2, np.bool_(False), "You said 2; it is False."),
        (False, True, "You said False; it is True."),
    ],
)
def test_any_prediction_stands_beside_any_result(
    answer: int | float | str | bool,
    result: Any,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv(LOG_VARIABLE, str(log))
    assert course.reveal(course.predict("What is it?", answer), lambda: result) == result
    assert capsys.readouterr().out == f"What is it? {words}\n"
    predicted, revealed = map(json.loads, log.read_text("utf-8").splitlines())
    assert predicted["answer"] == revealed["answer"] == answer and revealed["found"] == result
