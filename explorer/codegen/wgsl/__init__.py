"""Tile programs of thread blocks as compute shaders in WGSL, the language of WebGPU."""
