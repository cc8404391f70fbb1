"""The store in one SQLite file, and the turns of the processes that share it."""
