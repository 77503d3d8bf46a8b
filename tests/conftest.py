"""What every test stands on: its own cache folder, golden files, and honest skips."""

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from explorer.process.counters import counters
from explorer.process.garbage import YOUNG
from tests import examples

SNAPSHOTS = Path(__file__).parent / "snapshots"
# The first has no windows, and takes a quarter less of a processor for the same pages.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WARM, STARTED = pytest.StashKey[bool](), pytest.StashKey[float]()
KERNELS = Path(__file__).parent.parent / "build" / "test-cache"
NAMED_FILES = 3  # at the end, the slowest
QUICK_SECONDS = 60  # of `make check`
DURATIONS = "ironworks/durations"
OLDER = (10, 40)  # collections before one of older objects, and of all; Python's: 10, 10

# A shell gives what it starts in the background no Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# As it is imported, behind the checker of notebooks, it makes 39 grammars, of addresses that are
# looked at by nobody here: three seconds of every process that reads tests.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


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
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"run one case of each test, the shortest first, for {QUICK_SECONDS} s",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give all workers one cache of their own, which later runs find again.

    No test reads or fills the user's cache. Thousands of tests are many objects, which Python
    would look through again and again, two seconds each time.
    """
    examples.load_profile(config)
    gc.set_threshold(YOUNG, *OLDER)
    if not is_worker(config):
        cache_folder = Path(os.environ.setdefault("IRONWORKS_TEST_CACHE", str(KERNELS)))
        config.stash[WARM] = cache_folder.is_dir() and any(cache_folder.iterdir())
        os.environ["IRONWORKS_CACHE"] = str(cache_folder)
    config.stash[STARTED] = perf_counter()


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.freeze()  # pytest has looked through all objects; it would again, and Python at its end


def is_worker(config: pytest.Config) -> bool:
    """Return True in a process that xdist started."""
    return hasattr(config, "workerinput")


def run_name(config: pytest.Config) -> str | None:
    """Return the key of this run's duration, or None in a worker and for a selection of files."""
    if is_worker(config) or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return None
    warmth = "warm" if config.stash[WARM] else "cold"
    quick = " quick" if config.getoption("quick") else ""
    return f"ironworks/{config.getoption('markexpr')} {warmth}{quick}"


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how long the run will take, by the last one of its kind on this machine."""
    name = run_name(config)
    if name is None or config.cache is None:
        return None
    start = "warm start, with" if config.stash[WARM] else "cold start, without"
    seconds = config.cache.get(name, None)
    last = f"the last such run took {minutes(seconds)}" if seconds else "no such run was timed here"
    return f"{start} kernels of an earlier run: {last}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the duration of a run that was not broken off."""
    config = session.config
    name = run_name(config)
    if name and exitstatus in (0, 1) and config.cache is not None:
        config.cache.set(name, perf_counter() - config.stash[STARTED])


def minutes(seconds: float) -> str:
    """Return seconds as text, such as `7 min 30 s`."""
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    examples.mark_cases(items, most=1 if config.getoption("quick") else None)
    if config.getoption("quick"):
        order_by_duration(config, items)
    no_browser = find_chromium() is None
    for item in items:
        if no_browser and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="BROWSER TESTS SKIPPED: no Chromium here"))
        if item.get_closest_marker("gpu") and not has_gpu():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


def order_by_duration(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tools and what failed last time first, then the shortest by the last whole run."""
    assert config.cache is not None
    first = {i.nodeid for i in items if i.path.name == "test_lint.py"}
    first |= config.cache.get("cache/lastfailed", {}).keys()
    seconds = config.cache.get(DURATIONS, {})
    items.sort(key=lambda i: -1 if i.nodeid in first else seconds.get(function_of(i.nodeid), 0.2))
    items[:] = items[::2] + items[1::2]  # each of two workers begins with one half


def function_of(nodeid: str) -> str:
    """Return the name of a test without its parameters."""
    return nodeid.partition("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    spent = perf_counter() - item.config.stash[STARTED]
    if item.config.getoption("quick") and spent > QUICK_SECONDS:
        pytest.skip("OUT OF TIME: `make test` runs it")


@pytest.fixture(autouse=True)
def no_kernel_is_interpreted() -> Iterator[None]:
    """What has compiled code is run by it, in every test and wherever Python follows a program."""
    before = counters.interpreted_kernels
    yield
    assert counters.interpreted_kernels == before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: Counter[str] = Counter()
    longest: dict[str, float] = {}
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
            name = function_of(report.nodeid)
            longest[name] = max(longest.get(name, 0), report.duration)
    config = terminalreporter.config
    if (
        getattr(config, "cache", None) is not None
        and run_name(config)
        and not config.getoption("quick")
    ):
        config.cache.set(DURATIONS, {name: round(spent, 3) for name, spent in longest.items()})
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
    from explorer.measure.this_cpu import this_cpu

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
