"""All runs on one screen of a terminal. Shows panels and records; decides nothing."""
