"""The benchmark of runtimes in one page: its files, its answers, and ours in Chromium."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.benchmarks.browser_models import STEPS, Case, case_of, compilation, own_program
from tests.benchmarks.browser_page import PACKAGES, fetch_packages, race_page, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_only_files_of_the_folders_are_served(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "model.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret").write_text("no")
    with served({"case": tmp_path / "case"}) as address:
        answer = urllib.request.urlopen(f"{address}/case/model.wasm", timeout=5)
        assert answer.read() == b"\0asm" and answer.headers["Content-Type"] == "application/wasm"
        for path in ("case/../secret", "case/%2e%2e/secret", "secret", "other/model.wasm"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{address}/{path}", timeout=5)


def test_packages_that_are_there_are_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", "")  # no npm
    assert fetch_packages(tmp_path) == tmp_path
    (tmp_path / "onnx-buf").rmdir()
    with pytest.raises(FileNotFoundError):
        fetch_packages(tmp_path)


def test_words_of_a_language_model_are_those_that_were_decoded(tmp_path: Path) -> None:
    words = np.arange(2 * 64).reshape(2, 64)
    case = Case("llama", tmp_path, {}, flow=object())
    wanted = case.expected({"words": words})
    assert wanted["words"].shape == (2, STEPS)
    for runtime in (words, words[:, :STEPS], words.astype(np.int32)[:, :STEPS]):
        answers = case.outputs({"words": runtime.tobytes()}, wanted)
        np.testing.assert_array_equal(answers["words"], wanted["words"])


@pytest.mark.browser
@pytest.mark.parametrize("name", ["tiny_bert", "small_llama"])
def test_our_program_answers_in_a_page_as_natively(
    name: str, browser: "Browser", tmp_path: Path
) -> None:
    native = compilation(name, "cpu-sse")
    case = case_of(name, tmp_path, native)
    answer = case.expected(native.run(case.inputs))
    kind, settings = own_program(case, "wasm-simd128")
    with race_page(browser, {"case": tmp_path}, warm_ms=0) as page:
        loaded, data = page.load("ours", kind, settings)
        assert all(seconds > 0 for seconds in page.turn("ours", 3))
    assert loaded["version"] == settings["version"]
    for output, array in case.outputs(data, answer).items():
        np.testing.assert_allclose(array, answer[output], rtol=2e-4, atol=2e-5)
