"""Style sheet, script and icon, kept in memory and addressed by their content so that browsers may keep them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    body: bytes
    media_type: str
    digest: str

    @property
    def url(self) -> str:
        return f"/static/{self.name}?v={self.digest}"

    @property
    def etag(self) -> str:
        return f'"{self.digest}"'


def load(folder: Path = FOLDER) -> dict[str, Asset]:
    return {path.name: _asset(path) for path in sorted(folder.iterdir())}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(path.name, body, _MEDIA_TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])
