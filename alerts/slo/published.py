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
    _refuse_other_names(schema)
    told = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Objectives of inferwatch"}
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def _refuse_other_names(schema: object) -> None:
    """Names of a mapping by `propertyNames`: by `patternProperties` alone, those that do not fit go unchecked."""
    if isinstance(schema, dict):
        if isinstance(found := schema.pop("patternProperties", None), dict):
            ((pattern, value),) = found.items()
            schema |= {"additionalProperties": value, "propertyNames": {**schema["propertyNames"], "pattern": pattern}}
        for part in schema.values():
            _refuse_other_names(part)
    elif isinstance(schema, list):
        for part in schema:
            _refuse_other_names(part)
