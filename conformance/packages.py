"""The packages whose releases can be read, and the table that each is held to."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.table import Frontend
from exporters.tables.lmdeploy import LMDEPLOY
from exporters.tables.sglang import SGLANG
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from exporters.tables.vllm import VLLM


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    frontend: Frontend
    not_there: str = ""
    """Why its index has no wheel of it, where that is known."""


PACKAGES = {
    package.name: package
    for package in (
        Package("vllm", VLLM),
        Package("sglang", SGLANG),
        Package("lmdeploy", LMDEPLOY),
        Package(
            "tensorrt-llm",
            TRTLLM_SERVE,
            "Its files on PyPI are stubs, source archives without the server's code, so there is nothing to read: give "
            "the path of a real wheel in place of the release.",
        ),
    )
}
