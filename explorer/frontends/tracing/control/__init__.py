"""Control flow in a trace: branches, loops and scans, whose bodies are functions of the program."""
