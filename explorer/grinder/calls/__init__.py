"""Functions that are called: which call themselves, and where what they do stands instead."""
