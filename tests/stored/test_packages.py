"""What is installed is part of what code of one's own depends on, and is read when it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.stored.program_key import _packages


def test_a_package_that_comes_or_changes_its_version_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = [_packages()]
    for version in ("1.0", "1.1"):
        about = tmp_path / f"acme-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n")
        found.append(_packages())
        assert _packages() == found[-1]
        (about / "METADATA").unlink()
        about.rmdir()
    found.append(_packages())
    assert found[3] == found[0] and len({*found}) == 3
