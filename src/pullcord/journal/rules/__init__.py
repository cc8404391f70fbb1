"""Rules for each write, applied inside a store's write transaction."""
