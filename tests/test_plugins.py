"""A plug-in is loaded when it is asked for, and a broken one is named."""

import sys
from pathlib import Path

import pytest

from explorer import extend
from explorer.errors import BadOption

CODE = {
    "sound_plugin.py": "def halve(kernel): return kernel\n",
    "broken_plugin.py": "raise RuntimeError('it needs a licence')\n",
}
ENTRIES = """[ironworks.plugins]
halve = sound_plugin:halve
broken = broken_plugin
gone = sound_plugin:moved
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two distributions on the path, as an installer leaves them; both claim ``twice``."""
    for name, code in CODE.items():
        (tmp_path / name).write_text(code)
    for n in (1, 2):
        about = tmp_path / f"plugin{n}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin{n}\nVersion: 1.0\n")
        claims = f"twice = sound_plugin:halve{n}\n"
        (about / "entry_points.txt").write_text(
            ENTRIES + claims if n == 1 else f"[ironworks.plugins]\n{claims}"
        )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_plugins_are_listed_without_being_loaded() -> None:
    assert {"halve", "broken", "gone", "twice"} <= set(extend.names())
    assert "broken_plugin" not in sys.modules


@pytest.mark.usefixtures("installed")
def test_a_plugin_is_loaded_by_its_name() -> None:
    halve = extend.load("halve")
    assert callable(halve) and halve(3) == 3


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken", "RuntimeError: it needs a licence"),
        ("gone", "AttributeError"),
        ("twice", "several plug-ins are named 'twice'"),
        ("absent", "no plug-in is named 'absent'"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_named(name: str, sentence: str) -> None:
    with pytest.raises(BadOption, match=sentence) as refused:
        extend.load(name)
    assert refused.value.where == name
