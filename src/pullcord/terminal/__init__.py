"""Terminal parts that the command line and `top` share: keys, choices, one row of text."""
