"""The kill switch: outside the agent, the event loop and the database. Standard library only."""
