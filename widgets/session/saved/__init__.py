"""The part of a session that links and files save, and its restoration."""
