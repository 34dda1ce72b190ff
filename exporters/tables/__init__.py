"""One table per server frontend. Adding a frontend is adding its file and its entry here."""

from __future__ import annotations

from exporters.table import Frontend
from exporters.tables.vllm import VLLM

FRONTENDS: dict[str, Frontend] = {frontend.name: frontend for frontend in (VLLM,)}
