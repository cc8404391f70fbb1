"""Evidence that the records are unchanged: the stop log, its anchor, the checks."""
