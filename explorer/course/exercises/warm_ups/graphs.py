"""Warm-ups of chapter 01."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
