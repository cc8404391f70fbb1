"""One attempt of a step: its identity, its manner, its stop and its memory."""
