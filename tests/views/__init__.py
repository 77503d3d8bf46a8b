"""Tests of the rows that pictures and the terminal show."""
