"""Ratios against the bare limit, each measured in one run. `make bench` prints them."""
