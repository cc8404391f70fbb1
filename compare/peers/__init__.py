"""One module per framework, each imported only inside that framework's own environment."""
