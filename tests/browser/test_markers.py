"""`make check`, and machines without Chromium, leave out what drives one: by a marker."""

import pytest


def test_what_drives_chromium_carries_the_marker(request: pytest.FixtureRequest) -> None:
    """Of the tests that were chosen together with this one."""
    chosen = [i for i in request.session.items if "chromium" in getattr(i, "fixturenames", ())]
    assert [i.nodeid for i in chosen if not i.get_closest_marker("browser")] == []
