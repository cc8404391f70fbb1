"""A run and its records as people see them, the same on every surface."""
