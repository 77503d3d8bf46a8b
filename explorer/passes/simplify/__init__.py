"""Less to do: what is dead, equal, constant or bound goes; scales become part of weights."""
