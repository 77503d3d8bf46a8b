"""Pictures of Relax: shapes, levels, calls, fusion."""
