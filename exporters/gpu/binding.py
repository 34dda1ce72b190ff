"""NVIDIA's binding of NVML and the driver's library behind it: found, checked, and imported only when it is wanted."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from exporters.gpu.errors import DriverGone

_LIBRARY = "libnvidia-ml.so.1"
_DISTRIBUTION = "nvidia-ml-py"
_NEWEST_FUNCTION = "nvmlDeviceGetGpuFabricInfoV"
"""Of those that are used."""


def load() -> Any:
    """The module `pynvml`. It takes some 10 MB, so it is imported only where there is a driver. Raises DriverGone."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise DriverGone("gpu_no_library", str(error)) from error
    try:
        module = importlib.import_module("pynvml")
    except ImportError as error:
        raise DriverGone("gpu_no_binding", str(error)) from error
    if not hasattr(module, _NEWEST_FUNCTION):
        raise DriverGone("gpu_no_binding", f"the module pynvml at {module.__file__} is too old")
    return module


def shadow() -> str | None:
    """What stands in the place of NVIDIA's module `pynvml`, if something else does. Imports nothing.

    Old releases of the distribution named `pynvml` hold a package of that name, which goes before the module.
    """
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        return None
    file, is_package = Path(spec.origin), spec.submodule_search_locations is not None
    if _owns(_DISTRIBUTION, file) or not (is_package or _owns("pynvml", file)):
        return None
    owner = f"the distribution pynvml {version('pynvml')}" if _owns("pynvml", file) else "something else"
    return (
        f"the module pynvml at {file} is not NVIDIA's but that of {owner}: `pip uninstall pynvml`, then "
        f"`pip install --force-reinstall {_DISTRIBUTION}`; or read no GPUs here: `gpus: {{source: off}}`"
    )


def _owns(name: str, file: Path) -> bool:
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return False
    return any(f.name == file.name and Path(str(f.locate())).resolve() == file.resolve() for f in files)
