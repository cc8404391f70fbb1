"""The small process that holds every tool tree. Standard library only; no asyncio, no database."""
