"""Thirty made-up customers, and what can be computed from them: the same figures every time."""

from typing import Final, Literal, TypeAlias

import msgspec

Region: TypeAlias = Literal["all", "EU", "US", "APAC"]
HIGH_RISK: Final = 0.6


class Customer(msgspec.Struct, frozen=True):
    """One company: who uses what it pays for, and what it pays each month, now and in spring."""

    name: str
    region: Region
    seats: int
    active: int  # seats that were used this month
    last_login_days: int
    mrr: int  # US dollars
    mrr_in_spring: int

    @property
    def decline(self) -> float:
        """How much less it pays than in spring, as a share."""
        return max(self.mrr_in_spring - self.mrr, 0) / self.mrr_in_spring

    @property
    def risk(self) -> float:
        """How likely it leaves: who stays away, leaves seats empty and pays less, is going."""
        away = min(self.last_login_days / 45, 1)
        empty = 1 - self.active / self.seats
        return round(0.45 * away + 0.35 * empty + 0.2 * min(self.decline / 0.3, 1), 2)


_TABLE: Final = (
    Customer("Aldermoor Insurance", "EU", 120, 104, 1, 10800, 10200),
    Customer("Bergfeld Maschinen", "EU", 45, 9, 38, 4950, 6200),
    Customer("Casa Lunaro", "EU", 30, 27, 2, 2700, 2700),
    Customer("Delacroix & Fils", "EU", 22, 17, 6, 1980, 1980),
    Customer("Fjordline Freight", "EU", 80, 12, 41, 8800, 10700),
    Customer("Granary Street Foods", "EU", 35, 28, 4, 3150, 2900),
    Customer("Halden Robotics", "EU", 60, 51, 1, 6600, 5400),
    Customer("Isola Ceramics", "EU", 12, 3, 29, 1080, 1440),
    Customer("Kestrel Rail", "EU", 150, 96, 9, 13500, 14800),
    Customer("Lindqvist Optik", "EU", 18, 16, 3, 1620, 1620),
    Customer("Marisol Energia", "EU", 70, 58, 2, 7700, 7700),
    Customer("Acadia Outfitters", "US", 55, 47, 2, 4950, 4700),
    Customer("Blue Mesa Clinics", "US", 200, 171, 1, 19000, 17500),
    Customer("Cobalt Harbor Bank", "US", 90, 31, 33, 9900, 12900),
    Customer("Dry Creek Brewing", "US", 15, 11, 8, 1350, 1350),
    Customer("Evergreen Title", "US", 40, 6, 44, 3800, 4400),
    Customer("Foundry Nine", "US", 25, 23, 1, 2375, 2100),
    Customer("Hollis & Wake", "US", 65, 49, 5, 5850, 5850),
    Customer("Juniper Pediatrics", "US", 28, 24, 3, 2520, 2520),
    Customer("Longleaf Paper", "US", 85, 52, 14, 7650, 8300),
    Customer("Mariner Schools", "US", 110, 97, 2, 8800, 8800),
    Customer("Pinecrest Homes", "US", 20, 5, 36, 1800, 2250),
    Customer("Quarry Lane Legal", "US", 34, 30, 1, 3400, 3100),
    Customer("Amber Reef Travel", "APAC", 32, 25, 4, 2880, 2880),
    Customer("Banyan Logistics", "APAC", 95, 22, 40, 8550, 11100),
    Customer("Coral Bay Resorts", "APAC", 48, 41, 2, 4320, 4100),
    Customer("Daintree Analytics", "APAC", 26, 24, 1, 2860, 2400),
    Customer("Harbour Nine Media", "APAC", 38, 21, 17, 3420, 3900),
    Customer("Kaze Instruments", "APAC", 75, 69, 1, 8250, 7800),
    Customer("Tidewater Seafood", "APAC", 16, 13, 7, 1440, 1440),
)


def customers(region: Region = "all") -> list[Customer]:
    """Those of one region, or all of them, by name."""
    wanted = (one for one in _TABLE if region in ("all", one.region))
    return sorted(wanted, key=lambda one: one.name)


def at_risk(region: Region = "all", *, top: int = 0) -> list[Customer]:
    """Those who look likely to leave, the likeliest first; only so many of them, if `top`."""
    found = [one for one in customers(region) if one.risk >= HIGH_RISK]
    found.sort(key=lambda one: (-one.risk, one.name))
    return found[:top] if top else found


def revenue(those: list[Customer]) -> int:
    """What they pay together, in US dollars a month."""
    return sum(one.mrr for one in those)
