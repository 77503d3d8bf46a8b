"""Execution of compiled programs: persistent workers, device programs, arenas, time stamps."""
