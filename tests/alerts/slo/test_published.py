from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from alerts.slo.published import DEFAULT, json_schema
from alerts.slo.spec import read
from exporters.loader import ConfigError

SCHEMA = Draft202012Validator(json.loads(json_schema()))
OBJECTIVE: dict[str, Any] = {"name": "chat", "objective": 0.99, "indicator": {"availability": {}}}


def told(**keys: Any) -> dict[str, Any]:
    return {"version": 1, "slos": [OBJECTIVE | keys]}


def is_good(content: object, folder: Path) -> bool:
    """As the loader sees it, and the schema."""
    (folder / "slo.yml").write_text(yaml.safe_dump(content))
    try:
        read(folder / "slo.yml")
    except ConfigError:
        loaded = False
    else:
        loaded = True
    assert loaded == SCHEMA.is_valid(content)
    return loaded


def test_the_default_objectives_hold_to_the_schema() -> None:
    assert SCHEMA.is_valid(yaml.safe_load(DEFAULT.read_text()))


@pytest.mark.parametrize("version", [True, 2, "1", None])
def test_the_version_is_one_and_nothing_that_equals_it(version: object, tmp_path: Path) -> None:
    assert is_good(told(), tmp_path)
    assert not is_good({**told(), "version": version}, tmp_path)


@pytest.mark.parametrize("key", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("name", "good"), [("team", True), ("a_1", True), ("1st", False), ("a-b", False), ("__x", False)]
)
def test_names_of_labels_are_checked(key: str, name: str, good: bool, tmp_path: Path) -> None:
    assert is_good(told(**{key: {name: "x"}}), tmp_path) == good


@pytest.mark.parametrize("value", ["", 1, None])
def test_values_of_labels_are_text(value: object, tmp_path: Path) -> None:
    assert not is_good(told(labels={"team": value}), tmp_path)
