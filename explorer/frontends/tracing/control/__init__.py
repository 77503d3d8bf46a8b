"""Control flow in a trace: branches, loops and scans, with bodies as functions of the program."""
