"""The command line. Its control verbs import no event loop."""
