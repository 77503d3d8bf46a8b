"""Decoder-only language models (Radford et al. 2019; Touvron et al. 2023): files to step programs.

A file or a folder is read into a `DecoderConfig` and weights by name; `step_program` builds from
both the program that extends a cache of keys and values by a number of positions.
"""
