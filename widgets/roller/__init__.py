"""Roller's pictures: tiles, their construction, the roofline."""
