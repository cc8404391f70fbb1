"""`python -m pullcord.demo.scoring REGION SECONDS`: score customers one by one, and say so.

A process of its own, because a process can stand still in a pause and be killed by a cancel.
"""

import sys
import time

from pullcord.demo.customers import HIGH_RISK, Region, customers


def main(region: Region, seconds_each: float) -> None:
    those = customers(region)
    print(f"scoring {len(those)} customers", flush=True)
    for number, one in enumerate(those, start=1):
        time.sleep(seconds_each)
        mark = "  high" if one.risk >= HIGH_RISK else ""
        print(f"{number:>3}/{len(those)}  {one.name:<22}{one.risk:.2f}{mark}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))  # pyright: ignore[reportArgumentType]
