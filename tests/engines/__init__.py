"""Engines: what brings a run to a process."""
