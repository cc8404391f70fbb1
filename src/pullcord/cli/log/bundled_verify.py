"""Check this bundle: python3 -I verify.py [FOLDER]. Needs Python 3.8 or later, and nothing else.

What it shows: every file is the one that was exported, and there is no other; the records of each
run and the stop log follow from one another, from the first to the last, as they were written; each
entry of the stop log that is about a record names that very record; and the lines that were noted
outside the database name the same entries. What it cannot show: that nobody has rewritten all of
that, or this file. Compare the lines it prints last with what was noted elsewhere, and this file
with one of your own.
"""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    # Nothing that somebody has put beside this file is to be imported by it.
    sys.path[:] = [path for path in sys.path[1:] if path not in ("", ".", sys.path[0])]

import json
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
        stops = rows_of(folder, "stops.jsonl")
        head, forgotten = check_stops(stops)
        if head != (about["stop_log"]["n"], about["stop_log"]["hash"]):
            raise Wrong("bundle.json: the stop log does not end where it says")
        records: Any = {run: check_run(folder, run, end) for run, end in about["heads"].items()}
        check_gone(stops, records, forgotten)
        claims = check_claims(stops, records)
        lines, newest = check_anchor(read(folder, "anchor.txt"), stops)
    except (Wrong, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print("BROKEN:", error if isinstance(error, Wrong) else repr(error))
        return 1
    total = sum(len(found) for found in records.values())
    print("All files are as they were exported.")
    runs = "1 run" if len(records) == 1 else f"{len(records)} runs"
    print(f"{total} records of {runs} follow from one another.")
    print(f"{len(stops)} entries of the stop log follow from one another; {claims} name a record.")
    print(f"{lines} lines noted outside the database agree; the newest names entry {newest}.")
    print("The line 'stop log' vouches for the log. Of entries that are only a digest here no hash")
    print("shows whose they are: for what is in here only the line 'bundle' vouches.")
    print(f"Note elsewhere, or compare: stop log {head[0]} {head[1]}")
    print(f"Note elsewhere, or compare: bundle {seal}")
    return 0


def read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode("utf-8")


def rows_of(folder: Path, name: str) -> Any:
    """One of each line. (Not by splitlines, to which U+2028 within a text is the end of a line.)"""
    return [json.loads(line) for line in read(folder, name).split("\n") if line]


def check_sums(folder: Path) -> str:
    text = read(folder, "SUMS")
    body = text.rstrip("\n").rpartition("\n")[0]
    seal = sha256((body + "\n").encode()).hexdigest()
    if text != f"{body}\n{seal}  SUMS\n":
        raise Wrong("SUMS: its last line is not the sum of the lines above")
    here = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not is_folder(p)}
    named = {line.partition("  ")[2] for line in body.split("\n")} | {"SUMS"}
    if here - named:
        raise Wrong(f"{min(here - named)!r} was not exported: somebody has put it here")
    for line in body.split("\n"):
        wanted, _, name = line.partition("  ")
        if name.startswith("/") or ".." in name:
            raise Wrong(f"SUMS: {name} is no file of a bundle")
        if not (folder / name).is_file():
            raise Wrong(f"{name} is missing")
        if sha256((folder / name).read_bytes()).hexdigest() != wanted:
            raise Wrong(f"{name} is not the file that was exported")
    return seal


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def has_words(row: Any) -> bool:
    return row.get("payload") is not None or "payload_hex" in row


def digest_of(row: Any, what: str) -> bytes:
    """The digest of what it says; of what was deleted or left out, the digest that was kept."""
    kept = bytes.fromhex(row["digest"])
    said = row.get("payload")
    data = bytes.fromhex(row["payload_hex"]) if "payload_hex" in row else (said or "").encode()
    if has_words(row) and sha256(data).digest() != kept:
        raise Wrong(f"{what} does not say what it said when it was written")
    return kept


def check_stops(stops: Any) -> Any:
    before = b"\0" * 32
    forgotten: Any = {}  # run: the entry that says so
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
        entry: Any = json.loads(row["payload"]) if row.get("payload") else {"act": {}}
        if entry["act"].get("what") == "forgotten" and entry["act"]["runs"] == [entry.get("run")]:
            forgotten[entry["run"]] = {**entry, "n": n}
    return (len(stops), before.hex() if stops else ""), forgotten


def check_run(folder: Path, run: str, end: Any) -> Any:
    before, seq = b"\0" * 32, 0
    rows = rows_of(folder, f"records/{run}.jsonl")
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
    """What a row said may be gone only if the log says that it was deleted: then a run has nothing
    left but its last record, which says so as well, and which the log names."""
    for row in stops:
        act = forgotten.get(row.get("run"), {"n": 0})
        if "cover" not in row and not has_words(row) and row["n"] >= act["n"]:
            raise Wrong(f"what entry {row['n']} said is gone, and not by a deletion in the log")
    for run, rows in records.items():
        act, last = forgotten.get(run), rows[-1].get("payload") or ""
        told = [row["seq"] for row in rows if has_words(row)]
        says_so = last.startswith('{"type":"forgotten"')
        if act is None and (says_so or told != list(range(1, len(rows) + 1))):
            raise Wrong(f"what records of {run} said is gone, and not by a deletion in the log")
        if act and (not says_so or told != [act["seq"]] or act["hash"] != rows[-1]["hash"]):
            raise Wrong(f"{run} was forgotten, and its last record does not say so, or not alone")


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
