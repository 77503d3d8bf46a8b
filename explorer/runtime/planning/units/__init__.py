"""Assignment of work to units: all together in step, one alone, or separate units."""
