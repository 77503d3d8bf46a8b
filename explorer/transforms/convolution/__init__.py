"""Convolutions by minimal filtering (Lavin and Gray, 2016), in two dims and in one."""
