"""The only layer that creates tasks. So far: owning a run, and hearing controls."""
