"""Measurements that are looked at, not asserted: each module is a command."""
