"""WGSL shaders, run by the wgpu package where it is installed, and by a browser."""
