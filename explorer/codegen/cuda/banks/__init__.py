"""Shared-memory bank requests of printed thread blocks, by thread and word."""
