"""Lease, warden, takeover, partition and cancel. README.md says what is shown."""
