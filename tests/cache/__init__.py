"""Tests of the content-addressed cache."""
