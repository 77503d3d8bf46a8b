"""Forward deduction of annotations (Relax, ASPLOS 2025, section 4.1), with run-time dims."""
