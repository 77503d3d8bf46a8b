"""Handlers of questions that change the setting on show or begin work on it, by subject."""
