"""Honest timing, and this machine as it was measured."""
