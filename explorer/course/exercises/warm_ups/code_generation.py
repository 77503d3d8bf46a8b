"""Warm-ups of chapter 07."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
