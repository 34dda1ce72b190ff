"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None, typer.Option(help="Configuration file; without it ./inferwatch.yml, if there is one.", metavar="FILE")
]
StateDir = Annotated[
    Path | None, typer.Option(help="Folder of the history (default: ~/.local/state/inferwatch).", metavar="FOLDER")
]
Database = Annotated[
    str | None,
    typer.Option(
        help="Database URL of the history, instead of the configuration's; it holds no password.", metavar="URL"
    ),
]
Moment = Annotated[
    str, typer.Option(help="Unix seconds, an RFC 3339 time, or an age such as 90m or 7d.", metavar="TIME")
]
