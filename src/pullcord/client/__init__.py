"""Reaches runs for the command line and `top`, in a store or through a server."""
