"""Drawing primitives of every picture: marks, colours, tables and layered graphs."""
