"""Models of what cannot be tested by trying: checked exhaustively, in all ways that it can go."""
