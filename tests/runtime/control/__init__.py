"""Tests of `explorer.runtime.control`."""
