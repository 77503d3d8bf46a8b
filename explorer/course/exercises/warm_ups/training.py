"""Warm-ups of chapter 11."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
