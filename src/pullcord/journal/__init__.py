"""Durability: an append-only record per run, and the one place where controls are decided."""
