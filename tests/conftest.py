"""What every test stands on: its own cache folder, golden files, and honest skips."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from explorer.counters import counters
from explorer.garbage import YOUNG
from tests import examples

SNAPSHOTS = Path(__file__).parent / "snapshots"
# The first has no windows, and takes a quarter less of a processor for the same pages.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OWN_CACHE = pytest.StashKey[str]()
LONGEST = (  # files that take a worker longest begin first, so that none is left to one at the end
    "widgets/test_notebooks.py",
    "browser/test_every_room.py",
    "browser/test_axe.py",
    "browser/test_charts.py",
    "conformance/test_zoo_models.py",
    "test_readme.py",
    "browser/test_tour_in_lab.py",
    "fuzz/test_net.py",
    "runtime/cuda/test_program.py",
    "course/test_exercises.py",
    "frontends/test_zoo_control_flow.py",
    "rammer/test_better_devices.py",
    "browser/test_settings.py",
    "conformance/test_onnx_nodes.py",
    "browser/test_welder_rooms.py",
    "test_processes.py",
    "codegen/test_guard_pages.py",
    "training/test_real_runs.py",
    "test_program_cache.py",
    "codegen/cuda/test_matrix_units.py",
    "codegen/test_several_outputs.py",
    "browser/test_step_rooms.py",
    "conformance/test_onnx_nodes_expanded.py",
    "tile/gpu/test_matrix_units.py",
    "roller/test_matrix_pieces.py",
    "browser/test_house.py",
    "conformance/test_light_models.py",
    "widgets/test_real.py",
    "widgets/test_instructions.py",
    "widgets/test_figures.py",
)
NAMED_FILES = 3  # at the end, the slowest
OLDER = (10, 40)  # collections before one of older objects, and of all; Python's: 10, 10

# A shell gives what it starts in the background no Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# As it is imported, behind the checker of notebooks, it makes 39 grammars, of addresses that are
# looked at by nobody here: three seconds of every process that reads tests.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

settings.register_profile("ironworks", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "ironworks")


def find_chromium() -> str | None:
    """The Chromium to drive: ``$IRONWORKS_CHROMIUM``, or the system's."""
    chosen = os.environ.get("IRONWORKS_CHROMIUM")
    return chosen or next(filter(None, map(shutil.which, BROWSERS)), None)


@cache
def has_gpu() -> bool:
    """Whether Numba sees a CUDA device."""
    from numba import cuda

    return bool(cuda.is_available())  # type: ignore[no-untyped-call]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots", action="store_true", help="write the golden files, not compare them"
    )


def pytest_configure(config: pytest.Config) -> None:
    """No test reads or fills the user's cache; all workers of one run share one of their own.

    ``$IRONWORKS_TEST_CACHE`` keeps it from run to run. Thousands of tests are many objects, which
    Python would look through again and again, two seconds each time.
    """
    examples.choose(config)
    gc.set_threshold(YOUNG, *OLDER)
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    kept = os.environ.get("IRONWORKS_TEST_CACHE")
    if not kept:
        config.stash[OWN_CACHE] = tempfile.mkdtemp(prefix="ironworks-test-cache-")
    os.environ["IRONWORKS_CACHE"] = kept or config.stash[OWN_CACHE]


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.freeze()  # pytest has looked through all objects; it would again, and Python at its end
    if OWN_CACHE in config.stash:
        shutil.rmtree(config.stash[OWN_CACHE], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {SNAPSHOTS.parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))
    no_browser = find_chromium() is None
    for item in items:
        if no_browser and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="BROWSER TESTS SKIPPED: no Chromium here"))
        if item.get_closest_marker("gpu") and not has_gpu():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


@pytest.fixture(autouse=True)
def no_kernel_is_interpreted() -> Iterator[None]:
    """What has compiled code is run by it, in every test and wherever Python follows a program."""
    before = counters.interpreted_kernels
    yield
    assert counters.interpreted_kernels == before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: Counter[str] = Counter()
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    slowest = ", ".join(f"{name} {spent:.0f} s" for name, spent in seconds.most_common(NAMED_FILES))
    terminalreporter.write_line(f"slowest files: {slowest}")
    skipped = terminalreporter.stats.get("skipped", [])
    browser = [report for report in skipped if "BROWSER TESTS SKIPPED" in str(report.longrepr)]
    if browser:
        terminalreporter.write_line(
            f"BROWSER TESTS SKIPPED: {len(browser)}, because there is no Chromium here; "
            "install one (Debian: apt-get install chromium-headless-shell) "
            "or set IRONWORKS_CHROMIUM",
            red=True,
            bold=True,
        )


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the Chromium to drive; a test that takes it carries the ``browser`` marker."""
    found = find_chromium()
    assert found is not None, "mark the test with pytest.mark.browser"
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """The system's Chromium, one for all tests of a process: its driver can be started once."""
    pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
    from tests.browser.driver import chromium_browser

    with chromium_browser(chromium) as found:
        yield found


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder for one test alone, in which this machine was not measured either, as
    processes see it that begin with it.
    """
    from explorer import cache
    from explorer.measure.this_machine.this_cpu import this_cpu

    folder = tmp_path / "own-cache"
    monkeypatch.setenv("IRONWORKS_CACHE", str(folder))
    this_cpu.cache_clear()
    yield folder
    cache.finish()
    this_cpu.cache_clear()


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``snapshot("fusion/two_matmuls.txt", text)``: the text equals the golden file of this name.

    A missing file is a failure; ``--update-snapshots`` writes it, for the diff to be read.
    """
    update = bool(request.config.getoption("--update-snapshots"))

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not path.exists():
            pytest.fail(f"no golden file {path.name}; run with --update-snapshots and read it")
        assert text == path.read_text(encoding="utf-8")

    return check
