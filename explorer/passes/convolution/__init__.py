"""Convolutions by minimal filtering (Lavin and Gray, 2016): in two dims, in one, and where that
pays.
"""
