"""`make conformance FRAMEWORK=vllm RELEASE=0.33.0`: holds a table to the metrics that this release declares.

Exit 0: the table knows every name and every field has a source. 1: not so. 2: there is nothing to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance import wheel
from conformance.compare import Comparison, compare
from conformance.packages import PACKAGES, Package
from conformance.report import Subject, as_data, as_text

DIFFERS, NOTHING_TO_READ = 1, 2

Download = Callable[[str, str, Path], Path]


def main(arguments: Sequence[str], download: Download = wheel.download) -> int:
    asked = _parser().parse_args(arguments)
    package = PACKAGES[asked.framework]
    try:
        subject, comparison = _compared(package, asked.release, download)
    except wheel.NoWheel as error:
        print(error, file=sys.stderr)
        return NOTHING_TO_READ
    print(json.dumps(as_data(subject, comparison), indent=2) if asked.json else as_text(subject, comparison))
    return 0 if comparison.good else DIFFERS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m conformance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", choices=sorted(PACKAGES), metavar="FRAMEWORK", help=", ".join(sorted(PACKAGES)))
    parser.add_argument("release", nargs="?", default="", metavar="RELEASE", help="or the path of a wheel; newest")
    parser.add_argument("--json", action="store_true", help="everything that was read, as JSON")
    return parser


def _compared(package: Package, release: str, download: Download) -> tuple[Subject, Comparison]:
    if release.endswith(".whl"):
        return _held(package, Path(release))
    with TemporaryDirectory() as folder:
        try:
            return _held(package, download(package.name, release, Path(folder)))
        except wheel.NoWheel as error:
            raise wheel.NoWheel(f"{error}. {package.not_there}" if package.not_there else str(error)) from error


def _held(package: Package, path: Path) -> tuple[Subject, Comparison]:
    frontend, release = package.frontend, wheel.release_of(path)
    comparison = compare(frontend, wheel.read_wheel(path, frontend.prefixes), release)
    return Subject(package.name, release, frontend.name, frontend.releases), comparison


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
