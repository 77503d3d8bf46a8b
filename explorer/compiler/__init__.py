"""The compiler: its pipeline as a literal list, the driver, the options, and its result."""
