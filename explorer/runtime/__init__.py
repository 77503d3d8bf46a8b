"""Running compiled programs: persistent workers, an interpreted device program, arenas, stamps."""
