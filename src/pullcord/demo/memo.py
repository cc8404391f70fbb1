"""What the demo's agents write: the memo, its subject, and the line for the channel."""

from typing import Final

from pullcord.demo.customers import Customer, customers, revenue
from pullcord.demo.focus import Focus

CHANNEL: Final = "#customer-success"
TO: Final = "customer-success@northbeam.example"
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def subject_of(focus: Focus) -> str:
    return f"Churn risk, {focus.title}: {_customers(len(focus.at_risk))} to call"


def headline(focus: Focus) -> str:
    """One line for everybody."""
    those = focus.at_risk
    first = f" Call {_first_to_call(those).name} first." if those else ""
    money = f"${revenue(those):,} a month"
    return f"Churn, {focus.title}: {_customers(len(those))} at risk, {money}.{first}"


def memo(focus: Focus) -> str:
    """The whole of it, a screen long."""
    every, those = customers(focus.region), focus.at_risk
    where = "" if focus.region == "all" else f" in {focus.region}"
    counted = _counted(len(those))
    start = (
        f"{len(every)} customers{where} pay us ${revenue(every):,} a month. "
        f"{counted.capitalize()} of them, worth ${revenue(those):,}, "
        f"{'looks' if len(those) == 1 else 'look'} likely to leave."
    )
    lines = [f"{number}. {_line(one)}" for number, one in enumerate(those, start=1)]
    return "\n\n".join([start, "\n".join(lines), _advice(those)])


def _line(one: Customer) -> str:
    paying = f", paying {one.decline:.0%} less than in spring" if one.decline else ""
    return (
        f"{one.name} ({one.region}), ${one.mrr:,} a month, risk {one.risk:.2f}. Nobody has logged "
        f"in for {one.last_login_days} days; {one.active} of {one.seats} seats are in use{paying}."
    )


def _advice(those: list[Customer]) -> str:
    if not those:
        return "Nobody needs a call this week."
    return (
        f"I would call {_first_to_call(those).name} first: most of the money is there. Offer the "
        "right number of seats before they ask for it; a smaller contract is better than none."
    )


def _first_to_call(those: list[Customer]) -> Customer:
    return max(those, key=lambda one: one.mrr)


def _customers(number: int) -> str:
    return f"{number} customer" if number == 1 else f"{number} customers"


def _counted(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
