"""The page and the bar, as built: a fixed table of files, read once. No path is ever walked."""

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent.parent / "web"
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAMES: Final = {
    "/": "page.html",
    "/page.js": "page.js",
    "/page.css": "page.css",
    "/pullcord-bar.js": "pullcord-bar.js",
    "/icon.svg": "icon.svg",
}

FILES: Final[dict[str, tuple[str, bytes]]] = {
    path: (_KINDS[Path(name).suffix], (_HERE / name).read_bytes()) for path, name in _NAMES.items()
}
"""Path → its media type and content."""
