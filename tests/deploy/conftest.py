from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.deploy import images
from tests.deploy.stage import Stage, stage


@dataclass
class Built:
    """Images by the name of the service, or of the target of the Dockerfile; each is built once."""

    stage: Stage
    _names: dict[str, str] = field(default_factory=dict)

    def ours(self, target: str) -> str:
        return self._names.setdefault(target, "") or self._built(target, images.ours(self.stage, target))

    def standin(self, name: str) -> str:
        return self._names.setdefault(name, "") or self._built(name, images.standin(self.stage, name))

    def _built(self, name: str, image: str) -> str:
        self._names[name] = image
        return image


@pytest.fixture(scope="session")
def built() -> Iterator[Built]:
    with stage() as made:
        images.base(made)
        yield Built(made)
