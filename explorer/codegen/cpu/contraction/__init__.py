"""Contractions: register tiles of fused multiply-adds over panels of packed columns."""
