"""Keeps one append-only journal per run, and decides every control."""
