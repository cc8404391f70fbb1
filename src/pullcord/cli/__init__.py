"""The terminal: one module per group of commands. Control verbs import no event loop."""
