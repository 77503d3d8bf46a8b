"""Programs that run in the reader's browser: an interpreter, an honest clock, their panel."""
