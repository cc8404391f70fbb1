"""Runs as a store holds them: records, snapshots, families, candidates for deletion."""
