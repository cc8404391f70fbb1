"""`top`: all runs on one screen of a terminal. It shows panels and records, and decides nothing."""
