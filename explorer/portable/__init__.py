"""Compiled programs that leave this process: as data, as a C program, and as WebAssembly."""
