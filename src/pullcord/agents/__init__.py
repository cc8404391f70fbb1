"""Adapters for the agents of other libraries. Only an adapter imports its library."""
