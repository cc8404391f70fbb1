"""One run in the terminal that drives it: its bar, its keys, and the text above."""
