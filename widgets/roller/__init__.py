"""Pictures of Roller: tiles, their construction, the roofline."""
