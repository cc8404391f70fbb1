"""`make compare`: interrupt situations, side by side with other agent frameworks."""
