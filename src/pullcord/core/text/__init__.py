"""Checks and changes of text: secrets, guards, disguises, control characters."""
