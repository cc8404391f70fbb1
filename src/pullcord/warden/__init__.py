"""The small process that holds each tool's tree. Standard library only; no asyncio, no database."""
