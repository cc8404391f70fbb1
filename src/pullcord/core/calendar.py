"""The day of a moment, in UTC. Counted, not asked for: nothing here knows what time it is."""

from typing import Final

_DAY_MS: Final = 86_400_000
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def day_of(at_ms: int) -> str:
    """Return the day as it is written: 2026-11-16."""
    left, year = max(at_ms, 0) // _DAY_MS, 1970
    while left >= 365 + _is_leap(year):
        left -= 365 + _is_leap(year)
        year += 1
    month = 0
    while left >= (days := _MONTHS[month] + (month == 1 and _is_leap(year))):
        left -= days
        month += 1
    return f"{year}-{month + 1:02}-{left + 1:02}"


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
