"""Pictures of other options and hardware: every option and every figure, to change."""
