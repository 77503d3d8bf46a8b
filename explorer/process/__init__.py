"""Process-wide state: memory and cores allowed, forks, garbage collection, counts, the sandbox."""
