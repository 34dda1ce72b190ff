"""What is published of the file of objectives: its JSON Schema and the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from alerts.slo.spec import Specs

DEFAULT = Path(__file__).parent / "default.yml"


def json_schema() -> str:
    schema: dict[str, Any] = Specs.model_json_schema()
    del schema["properties"]["foreign"]
    told = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Objectives of inferwatch"}
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"
