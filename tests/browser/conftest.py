import pytest

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
