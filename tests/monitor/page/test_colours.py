"""Contrast by the formula of WCAG 2.1 (relative luminance), computed from the style sheet."""

import re
from itertools import product

import pytest

from monitor.page.assets import FOLDER

TEXTS = ("text", "muted", "accent", "good", "quiet", "warning", "bad")
GROUNDS = ("ground", "surface", "raised")
PAIRS = [
    *product(TEXTS, GROUNDS),
    ("bad", "bad-ground"),
    ("quiet", "quiet-ground"),
]


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", (FOLDER / "page.css").read_text(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula_gives_the_known_extremes() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_is_readable_on_its_ground(theme: str, text: str, ground: str) -> None:
    colours = themes()[theme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_bars_stand_out_from_their_ground(theme: str) -> None:
    colours = themes()[theme]
    assert contrast(colours["data"], colours["surface"]) >= 3
    assert contrast(colours["warning"], colours["track"]) >= 3


def test_every_colour_is_said_in_both_themes() -> None:
    blocks = re.findall(r":root \{(.*?)\}", (FOLDER / "page.css").read_text(), re.DOTALL)
    light, dark = (set(re.findall(r"--([a-z-]+):", block)) for block in blocks)
    assert light == dark


def test_no_colour_is_written_outside_the_two_lists() -> None:
    rest = re.sub(r":root \{.*?\}", "", "".join(p.read_text() for p in FOLDER.glob("*.css")), flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?!-)|rgb|hsl", rest.replace("#fleet-table", "").replace("#stale", "")) == []
