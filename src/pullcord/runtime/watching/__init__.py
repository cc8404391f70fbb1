"""Observers of driven runs: spans, logs, and the finder of blocked event loops."""
