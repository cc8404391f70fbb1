"""Adapters: agents of other libraries, under the cord. Only an adapter imports its library."""
