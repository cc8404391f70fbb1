"""Check this bundle: python verify.py [FOLDER]. Needs Python 3.8 or later, and nothing else.

What it shows: every file is the one that was exported; the records of each run and the stop log
follow from one another, from the first to the last, as they were written; each entry of the stop
log that is about a record names that very record; and the lines that were noted outside the
database name the same entries. What it cannot show: that whoever exported it had not rewritten
all of that before. Compare the two lines it prints last with what was noted elsewhere.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any


class Wrong(Exception):
    """The first thing that is not as it was written."""


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    try:
        seal = check_sums(folder)
        about: Any = json.loads(read(folder, "bundle.json"))
        stops = [json.loads(line) for line in read(folder, "stops.jsonl").splitlines()]
        head, forgotten = check_stops(stops)
        if head != (about["stop_log"]["n"], about["stop_log"]["hash"]):
            raise Wrong("bundle.json: the stop log does not end where it says")
        records: Any = {run: check_run(folder, run, end) for run, end in about["heads"].items()}
        check_gone(stops, records, forgotten)
        claims = check_claims(stops, records)
        lines, newest = check_anchor(read(folder, "anchor.txt"), stops)
    except (Wrong, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print("BROKEN:", error if isinstance(error, Wrong) else repr(error))
        return 1
    total = sum(len(found) for found in records.values())
    print("All files are as they were exported.")
    print(f"{total} records of {len(records)} runs follow from one another.")
    print(f"{len(stops)} entries of the stop log follow from one another; {claims} name a record.")
    print(f"{lines} lines noted outside the database agree; the newest names entry {newest}.")
    print(f"Note elsewhere, or compare: stop log {head[0]} {head[1]}")
    print(f"Note elsewhere, or compare: bundle {seal}")
    return 0


def read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode("utf-8")


def check_sums(folder: Path) -> str:
    text = read(folder, "SUMS")
    body = text.rstrip("\n").rpartition("\n")[0]
    seal = sha256((body + "\n").encode()).hexdigest()
    if text != f"{body}\n{seal}  SUMS\n":
        raise Wrong("SUMS: its last line is not the sum of the lines above")
    for line in body.splitlines():
        wanted, _, name = line.partition("  ")
        if name.startswith("/") or ".." in name:
            raise Wrong(f"SUMS: {name} is no file of a bundle")
        if not (folder / name).is_file():
            raise Wrong(f"{name} is missing")
        if sha256((folder / name).read_bytes()).hexdigest() != wanted:
            raise Wrong(f"{name} is not the file that was exported")
    return seal


def digest_of(row: Any, what: str) -> bytes:
    """The digest of what it says; of what was deleted or left out, the digest that was kept."""
    kept = bytes.fromhex(row["digest"])
    said = row.get("payload")
    data = bytes.fromhex(row["payload_hex"]) if "payload_hex" in row else (said or "").encode()
    if (said is not None or "payload_hex" in row) and sha256(data).digest() != kept:
        raise Wrong(f"{what} does not say what it said when it was written")
    return kept


def check_stops(stops: Any) -> Any:
    before = b"\0" * 32
    forgotten: set[str] = set()
    for n, row in enumerate(stops, 1):
        if row["n"] != n:
            raise Wrong(f"entry {n} of the stop log: entry {row['n']} stands in its place")
        cover = bytes.fromhex(row["cover"]) if "cover" in row else b""
        if not cover:
            digest = digest_of(row, f"entry {n} of the stop log")
            cover = sha256(row["run"].encode() + b"\0" + digest).digest()
        before = sha256(b"stop\0" + before + cover + b"%d\0%d" % (n, row["at_ms"])).digest()
        if before.hex() != row["hash"]:
            raise Wrong(f"entry {n} of the stop log does not follow from the entry before")
        act: Any = json.loads(row["payload"])["act"] if row.get("payload") else {}
        forgotten.update(act["runs"] if act.get("what") == "forgotten" else ())
    return (len(stops), before.hex() if stops else ""), forgotten


def check_run(folder: Path, run: str, end: Any) -> Any:
    before, seq = b"\0" * 32, 0
    rows = [json.loads(line) for line in read(folder, f"records/{run}.jsonl").splitlines()]
    for seq, row in enumerate(rows, 1):
        if row["seq"] != seq:
            raise Wrong(f"record {seq} of {run}: record {row['seq']} stands in its place")
        digest = digest_of(row, f"record {seq} of {run}")
        drift = b"" if row["drift_ms"] is None else b"\0%d\0" % row["drift_ms"]
        place = before + digest + b"\0%d\0%d\0%d" % (seq, row["at_ms"], row["epoch"])
        before = sha256(place + drift + run.encode()).digest()
        if before.hex() != row["hash"]:
            raise Wrong(f"record {seq} of {run} does not follow from the record before")
    if (seq, before.hex()) != (end["seq"], end["hash"]):
        raise Wrong(f"the records of {run} do not end where bundle.json says")
    return rows


def check_gone(stops: Any, records: Any, forgotten: Any) -> None:
    """What a row said may be gone only if the log says that it was deleted."""
    rows = [(row["run"], f"entry {row['n']}", row) for row in stops if "cover" not in row]
    for run, found in records.items():
        rows += [(run, f"record {row['seq']} of {run}", row) for row in found]
    for run, what, row in rows:
        if row.get("payload") is None and "payload_hex" not in row and run not in forgotten:
            raise Wrong(f"what {what} said is gone, and the log does not say that it was deleted")


def check_claims(stops: Any, records: Any) -> int:
    claims = 0
    for row in stops:
        entry: Any = json.loads(row["payload"]) if row.get("payload") else {}
        run, seq = entry.get("run"), entry.get("seq", 0)
        if not seq or run not in records:
            continue
        claims += 1
        if seq > len(records[run]) or records[run][seq - 1]["hash"] != entry["hash"]:
            raise Wrong(f"entry {row['n']} is not about record {seq} of {run} as it is here")
    return claims


def check_anchor(text: str, stops: Any) -> Any:
    known = {str(r["n"]): f"stop {r['n']} {r['hash']} {r['at_ms']}" for r in stops}
    newest, lines = 0, text[: -1 if text.endswith("\n") else None].split("\n") if text else []
    for number, line in enumerate(lines, 1):
        n = [*line.split(" "), ""][1]
        if not line or not known.get(n, "stop " + n).startswith(line):  # (one may be torn off)
            raise Wrong(f"line {number} of anchor.txt does not name an entry that is here")
        newest = max(newest, int(n or 0))
    return len(lines), newest


if __name__ == "__main__":
    sys.exit(main())
