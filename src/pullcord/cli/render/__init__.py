"""Runs and records on standard output: as words, as lines, as JSON."""
