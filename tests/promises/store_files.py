"""The files of a store: what is in them, and changes behind the journal's back."""

from pathlib import Path

import apsw


def files_of(path: Path) -> dict[str, bytes]:
    found = [one for one in path.parent.rglob("*") if one.is_file()]
    return {str(one.relative_to(path.parent)): one.read_bytes() for one in found}


def edit(path: Path, statement: str) -> int:
    """Change the file behind the journal's back."""
    db = apsw.Connection(str(path))
    db.execute(statement)
    changed = db.changes()
    db.close()
    return changed
