"""Pictures of measurements and of other choices: kernels, tiles, sizes, races, hardware."""
