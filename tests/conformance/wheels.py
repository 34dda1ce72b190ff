"""Wheels made by hand: a few lines of Python in the archive that pip and the reader expect."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from conformance.declarations import Declared, Family
from conformance.wheel import read_wheel

_INFO = {
    "METADATA": "Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}


def wheel(
    folder: Path, files: Mapping[str, str], name: str = "vllm", release: str = "0.33.0", tag: str = "py3-none-any"
) -> Path:
    path = folder / f"{name}-{release}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        for file, text in _INFO.items():
            archive.writestr(f"{name}-{release}.dist-info/{file}", text.format(name=name, release=release))
    return path


def declared(folder: Path, files: Mapping[str, str], prefix: str = "p") -> Declared:
    return read_wheel(wheel(folder, files), (prefix,))


def families(found: Declared) -> dict[str, str | None]:
    return {family.name: family.kind for family in found.families}


def only(found: Declared) -> Family:
    (family,) = found.families
    return family
