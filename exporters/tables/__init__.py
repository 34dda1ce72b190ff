"""One table per server frontend. Adding a frontend is adding its file and its entry here."""

from __future__ import annotations

from exporters.table import Frontend
from exporters.tables.lmdeploy import LMDEPLOY
from exporters.tables.nim import NIM
from exporters.tables.sglang import SGLANG
from exporters.tables.triton import TRITON
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from exporters.tables.vllm import VLLM

_ALL = (VLLM, SGLANG, LMDEPLOY, TRTLLM_SERVE, TRITON, NIM)
"""Where a page shows as many marks of two of them, it is the first one's: Triton passes vLLM's names on, not the other
way round."""

FRONTENDS: dict[str, Frontend] = {frontend.name: frontend for frontend in _ALL}
