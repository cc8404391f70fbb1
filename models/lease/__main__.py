"""`python -m models.lease`: check every case, and tell how those go wrong that must."""

import sys

from models.lease.checking import CASES, check, is_there


def main() -> int:
    if not is_there():
        print("spin or gcc is missing. Install them: apt-get install spin gcc")
        return 2
    wrong = 0
    for case in CASES:
        found = check(case)
        is_right = bool(found.trace) == case.refuted
        wrong += not is_right
        says = "refuted" if found.trace else "holds"
        print(
            f"{'' if is_right else 'WRONG: '}{case.name}: {says}, {found.states:,} states",
            flush=True,
        )
        for line in found.trace:
            print(f"    {line}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
