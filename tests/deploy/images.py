"""Images where no registry can be reached: a base of this machine's Debian, ours on it, stand-ins for the others'."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.deploy.stage import Stage
from tests.end_to_end.processes import ROOT
from tests.services import require

BASE = "localhost/base:latest"
STANDINS = Path(__file__).parent / "standins"
_PROGRAMS = {
    "postgres": ("initdb",),
    "prometheus": ("prometheus", "promtool"),
    "alertmanager": ("prometheus-alertmanager", "amtool"),
}


def base(stage: Stage) -> None:
    """Debian with Python, of the release that this machine has, so that its programs run there."""
    root = stage.work / "base"
    command = [require("debootstrap"), "--variant=minbase", "--include=python3,python3-venv", _codename(), str(root)]
    stage.run(*command, *_mirror(), network=False, timeout=600)
    stage.run("rm", "-r", f"{root}/var/cache/apt/archives", f"{root}/var/lib/apt/lists")
    stage.run("tar", f"--directory={root}", "-cf", "base.tar", ".")
    stage.containers("podman", "import", "--quiet", "base.tar", BASE)
    stage.run("rm", "-r", str(root), "base.tar")


def _codename() -> str:
    (found,) = re.findall(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return str(found)


def _mirror() -> list[str]:
    """That of this machine."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    text = "\n".join(file.read_text() for file in files if file.exists())
    return re.findall(r"^(?:URIs:|deb)\s(?:.*\s)?(https?://\S+)", text, re.MULTILINE)[:1]


def ours(stage: Stage, target: str) -> str:
    """Built from the Dockerfile, with this machine's way to its package index."""
    name, given = f"localhost/inferwatch-{target}:test", stage.seen / "given"
    given.mkdir(exist_ok=True)
    secrets = _settings_of_pip(given)
    options = [f"--secret=id={id_},src={stage.work / 'given' / id_}" for id_ in secrets]
    _bud(
        stage, name, ROOT, "--layers", f"--target={target}", f"--build-arg=BASE_IMAGE={BASE}",
        "--build-arg=REVISION=tested", *options, *(f"--volume={path}:{path}:ro" for path in _local_packages(given)),
    )  # fmt: skip
    return name


def _bud(stage: Stage, name: str, context: Path, *options: str) -> None:
    stage.containers(
        "buildah", "bud", "--quiet", "--isolation=chroot", "--network=host", f"--tag={name}", *options, str(context),
        network=False, timeout=600,
    )  # fmt: skip


def _settings_of_pip(folder: Path) -> list[str]:
    """Writes them as the Dockerfile takes them; the names of its secrets."""
    said = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    settings = {key: value for _, key, value in re.findall(r"^(global|:env:)\.([\w-]+)='(.*)'$", said, re.MULTILINE)}
    authorities = settings.pop("cert", None) or os.environ.get("SSL_CERT_FILE")
    settings.pop("constraint", None)  # of this machine; what is installed is pinned
    if authorities:
        shutil.copyfile(authorities, folder / "ca.pem")
        settings["cert"] = "/run/secrets/ca.pem"
    lines = ["[global]", *(f"{key} = {value}" for key, value in settings.items()), ""]
    (folder / "pip.conf").write_text("\n".join(lines))
    return ["pip.conf", "ca.pem"] if authorities else ["pip.conf"]


def _local_packages(given: Path) -> list[str]:
    """Folders in which pip is told to look."""
    said = (given / "pip.conf").read_text()
    found = re.findall(r"(?:file://|\s)(/\S+)", said)
    return sorted({path.removesuffix("/simple") for path in found if Path(path).is_dir()})


def standin(stage: Stage, name: str) -> str:
    """Debian's programs, at the place and with the entry point of the image that the compose file names."""
    context = stage.seen / name
    shutil.copytree(STANDINS / name, context)
    found = [Path(require(program)).resolve() for program in _PROGRAMS[name]]
    programs = found if name != "postgres" else sorted(found[0].parent.iterdir())
    with tarfile.open(context / "programs.tar", "w", dereference=True) as tar:
        for path in sorted({*programs, *_libraries(programs), *_data(name, programs)}):
            tar.add(path, path.parent.resolve() / path.name)
    tag = f"localhost/{name}:test"
    _bud(stage, tag, stage.work / name, f"--build-arg=BASE_IMAGE={BASE}", "--layers")
    return tag


def _libraries(programs: Sequence[Path]) -> set[Path]:
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False, timeout=60).stdout
    return {Path(path) for path in re.findall(r"=> (/\S+)", said)}


def _data(name: str, programs: Sequence[Path]) -> set[Path]:
    """What they read beside themselves, at Debian's places."""
    if name == "postgres":
        release = programs[0].parents[1]
        return {release / "lib", Path("/usr/share/postgresql") / release.name}
    return {Path("/usr/share/prometheus/alertmanager")} if name == "alertmanager" else set()
