from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporters.gpu import binding
from tests.exporters.gpu.scripted import LONG, ROOT


def old_package(folder: Path, *, named: bool) -> Path:
    """An old release of the distribution `pynvml`, as pip leaves it: a package, not a module."""
    (folder / "pynvml").mkdir()
    (folder / "pynvml" / "__init__.py").write_text("def nvmlInit(): ...\n")
    if named:
        info = folder / "pynvml-11.4.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pynvml\nVersion: 11.4.1\n")
        (info / "RECORD").write_text("pynvml/__init__.py,,\npynvml-11.4.1.dist-info/METADATA,,\n")
    return folder


def sidecar(folder: Path, config: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Asked to listen where it cannot, so that it ends in any case."""
    file = tmp_path / "inferwatch.yml"
    file.write_text(config)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "exporters", "--config", str(file), "--listen", "192.0.2.1:1"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG, check=False)


@pytest.mark.parametrize(("named", "owner"), [(True, "the distribution pynvml 11.4.1"), (False, "something else")])
def test_an_old_pynvml_in_the_way_of_nvidia_s_module_is_refused(tmp_path: Path, named: bool, owner: str) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    ended = sidecar(old_package(folder, named=named), "servers: []\n", tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == (
        f"gpus: the module pynvml at {folder}/pynvml/__init__.py is not NVIDIA's but that of {owner}: "
        "`pip uninstall pynvml`, then `pip install --force-reinstall nvidia-ml-py`; or read no GPUs here: "
        "`gpus: {source: off}`\n"
    )


@pytest.mark.parametrize("gpus", ["{source: off}", "{dcgm: 'http://localhost:9400'}"])
def test_who_does_not_want_it_may_have_it(tmp_path: Path, gpus: str) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    ended = sidecar(old_package(folder, named=True), f"gpus: {gpus}\n", tmp_path)
    assert "could not listen on 192.0.2.1:1" in ended.stderr


def test_nvidia_s_own_module_is_known_as_such() -> None:
    assert binding.shadow() is None


def test_nothing_is_in_the_way_where_there_is_no_such_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert binding.shadow() is None
