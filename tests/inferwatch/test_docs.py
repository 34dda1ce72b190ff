from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from markdown_it import MarkdownIt

from exporters.config import SECTIONS, Config
from exporters.loader import load
from exporters.tables import FRONTENDS
from inferwatch.__main__ import app
from inferwatch.discover import PORTS
from inferwatch.generate import ROOT
from monitor.config import MonitorConfig

DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_group(app).commands
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def options(name: str) -> set[str]:
    """Of a group, those of all its commands."""
    commands = getattr(COMMANDS[name], "commands", {name: COMMANDS[name]}).values()
    opts = {option for command in commands for parameter in command.params for option in parameter.opts}
    return {option for option in opts if option.startswith("--")} - {"--help"}


def section(name: str) -> str:
    return CLI.split(f"\n## inferwatch {name}\n")[1].split("\n## ")[0]


def yaml_blocks(path: Path) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def rows_without_a_header(text: str) -> list[str]:
    """Lines of prose that begin as rows do."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    prose = (token.content for token in tokens if token.type == "inline" and token.level == 1)
    return [line for content in prose for line in content.splitlines() if line.startswith("|")]


def repeated_headings(text: str) -> list[str]:
    """Those that stand twice under the same heading."""
    tokens = MarkdownIt("commonmark").parse(text)
    above: list[tuple[int, str]] = []
    found: Counter[tuple[tuple[int, str], ...]] = Counter()
    for token, after in pairwise(tokens):
        if token.type == "heading_open":
            rank = int(token.tag[1:])
            above = [*(each for each in above if each[0] < rank), (rank, after.content)]
            found[tuple(above)] += 1
    return [path[-1][1] for path, count in found.items() if count > 1]


def test_the_readme_lists_the_frontends_that_there_are() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(docs/reference/(\w+)\.md\) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert rows == [(name, name, frontend.releases) for name, frontend in FRONTENDS.items()]


def test_the_ports_that_are_looked_at_are_told() -> None:
    for text in ((ROOT / "README.md").read_text(encoding="utf-8"), section("up")):
        told = [int(port) for port in re.findall(r"\b\d{4,5}\b", text)]
        assert set(PORTS) <= set(told)


def test_the_two_commands_stand_first_in_the_readme() -> None:
    blocks = re.findall(r"^    (make \w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert blocks[:2] == ["make run", "make test"]


@pytest.mark.parametrize("name", ["README.md", "docs/cli.md", "docs/quickstart.md"])
def test_where_the_command_is_stands_before_its_first_use(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    told = text.index(".venv/bin/inferwatch")
    used = re.search(rf"(?<!\.venv/bin/)inferwatch ({'|'.join(COMMANDS)})\b", text)
    assert used is not None
    assert told < text.index("source .venv/bin/activate") < used.start()


@pytest.mark.parametrize("name", ["Makefile", "CONTRIBUTING.md", "README.md", "docs/cli.md", "docs/quickstart.md"])
def test_the_demo_is_told_to_be_simulated(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert all("simulated" in line for line in text.splitlines() if 'ARGS="--demo"' in line)


def test_how_long_history_is_kept_is_told() -> None:
    kept = MonitorConfig().history.retention
    told = f"minutes for {kept.minutes / 86400:g} days, hours for {kept.hours / 86400:g}, days for ever"
    assert kept.days == math.inf
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_described(name: str) -> None:
    described = set(re.findall(r"^\| `(--[a-z-]+)", section(name), re.MULTILINE))
    assert described == options(name)


def test_no_command_is_described_that_does_not_exist() -> None:
    assert re.findall(r"^## inferwatch (\w+)$", CLI, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["README.md", "docs/cli.md", "docs/quickstart.md"])
def test_every_example_of_a_configuration_is_accepted_as_it_stands(name: str, tmp_path: Path) -> None:
    for i, block in enumerate(yaml_blocks(ROOT / name)):
        if not yaml.safe_load(block).keys() <= SECTIONS:
            continue  # Prometheus'
        file = tmp_path / f"{i}.yml"
        file.write_text(block, encoding="utf-8")
        load(file, Config)
        load(file, MonitorConfig)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_row_of_a_table_belongs_to_a_header_and_every_heading_stands_once(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert rows_without_a_header(text) == []
    assert repeated_headings(text) == []


BROKEN = """## `servers`

| key | meaning |
| --- | --- |
| `url` | address |

## `compare`

```yaml
| no: row |
```
| `labels` | of your own |

## `compare`
"""


def test_a_section_that_tears_a_table_apart_and_stands_twice_is_found() -> None:
    assert rows_without_a_header(BROKEN) == ["| `labels` | of your own |"]
    assert repeated_headings(BROKEN) == ["`compare`"]
