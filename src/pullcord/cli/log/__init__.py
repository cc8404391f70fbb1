"""The stop log for people: its lines, transcripts and evidence bundles."""
