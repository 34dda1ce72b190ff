"""Vega's SVG made fit to stand in a page: only drawing, tooltips as titles, and no identifier twice on a page."""

from __future__ import annotations

import hashlib
import re
from xml.etree import ElementTree as ET

_NAMESPACE = "http://www.w3.org/2000/svg"
_ELEMENTS = frozenset(
    [
        "svg",
        "g",
        "path",
        "rect",
        "line",
        "circle",
        "text",
        "tspan",
        "title",
        "defs",
        "clipPath",
        "linearGradient",
        "stop",
    ]
)
_DROPPED = frozenset(["class", "role", "version", "width", "height", "pointer-events"])
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+")


class UnexpectedDrawing(Exception):
    pass


def cleaned(svg: str, title: str) -> str:
    """Raises UnexpectedDrawing where there is anything that does not draw."""
    ET.register_namespace("", _NAMESPACE)
    root = ET.fromstring(svg)  # noqa: S314 written by Vega, which cannot declare entities
    prefix = hashlib.sha256(svg.encode()).hexdigest()[:8]
    for element in list(root.iter()):
        _clean(element, prefix)
    root.set("role", "img")
    root.set("aria-label", title)
    return ET.tostring(root, encoding="unicode")


def _clean(element: ET.Element, prefix: str) -> None:
    name = element.tag.removeprefix(f"{{{_NAMESPACE}}}")
    if name not in _ELEMENTS:
        raise UnexpectedDrawing(f"a chart holds an element {name!r}")
    said = element.get("aria-label")
    element.attrib = {k: _value(k, v, prefix) for k, v in element.attrib.items() if _kept(name, k)}
    if said is not None and name != "svg":
        _tell(element, said)


def _tell(element: ET.Element, said: str) -> None:
    """Also where there is nothing to be seen: Vega leaves out what is transparent."""
    title = ET.Element(f"{{{_NAMESPACE}}}title")
    title.text = said
    element.insert(0, title)
    element.set("pointer-events", "all")


def _kept(element: str, attribute: str) -> bool:
    if attribute.startswith("on") or attribute in {"style", "href"} or attribute.startswith("{"):
        raise UnexpectedDrawing(f"a chart holds an attribute {attribute!r}")
    if attribute.startswith("aria-"):
        return False
    return attribute not in _DROPPED or (element in {"rect", "line", "clipPath"} and attribute in {"width", "height"})


def _value(attribute: str, value: str, prefix: str) -> str:
    if attribute == "id":
        return f"{prefix}-{value}"
    if attribute in {"d", "transform"}:
        return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), value)
    return _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
