"""The only layer that creates tasks: runs are started, driven and controlled here."""
