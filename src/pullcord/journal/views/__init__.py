"""Runs as viewers may see them, and the items that wait for a person."""
