"""Contrast by the formula of WCAG 2.1 (relative luminance), computed from the style sheet."""

import math
import re
from itertools import combinations, product

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
    light, dark = (dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block)) for block in blocks)
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
    light, dark = (set(re.findall(r"--([a-z0-9-]+):", block)) for block in blocks)
    assert light == dark


def test_no_colour_is_written_outside_the_two_lists() -> None:
    rest = re.sub(r":root \{.*?\}", "", "".join(p.read_text() for p in FOLDER.glob("*.css")), flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?!-)|rgb|hsl", rest.replace("#fleet-table", "").replace("#stale", "")) == []


MATRICES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""Machado, Oliveira and Fernandes 2009, severity 1: linear RGB as such eyes see it."""
CLEARLY = 10.0
"""Distance in CIELAB; about 2 is the least that is seen at all, side by side."""
CHART_LINES = ("line-1", "line-2", "line-3", "line-4", "text")


def linear(colour: str) -> list[float]:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def lab(colour: str, seen: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """CIELAB under D65."""
    red, green, blue = (
        min(1.0, max(0.0, sum(k * c for k, c in zip(row, linear(colour), strict=True)))) for row in seen
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eyes", MATRICES)
def test_lines_of_charts_are_told_apart_by_all_eyes(theme: str, eyes: str) -> None:
    colours = themes()[theme]
    for one, other in combinations(CHART_LINES, 2):
        apart = math.dist(lab(colours[one], MATRICES[eyes]), lab(colours[other], MATRICES[eyes]))
        assert apart > CLEARLY, f"{one} and {other}"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("line", CHART_LINES)
def test_lines_of_charts_stand_out_from_their_ground(theme: str, line: str) -> None:
    assert contrast(themes()[theme][line], themes()[theme]["surface"]) >= 3
