"""Which names of hosts are this machine."""


def is_loopback(host: str) -> bool:
    """Whether it is this machine, by its name alone."""
    name = host.strip("[]").lower()
    parts = name.split(".")
    is_four = len(parts) == 4 and all(part.isdigit() for part in parts)
    return name in ("localhost", "::1") or (is_four and parts[0] == "127")
