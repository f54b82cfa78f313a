"""A stand-in on each engine. An absent engine skips its tests aloud, and fails them where `CI=true`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster

ENGINES = {
    "podman-rootful": "BELLJAR_TEST_PODMAN_ROOTFUL",
    "podman-rootless": "BELLJAR_TEST_PODMAN_ROOTLESS",
    "docker": "BELLJAR_TEST_DOCKER",
}


@pytest.fixture(scope="session", params=ENGINES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(_address(request.param), tmp_path_factory.mktemp("cluster"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def any_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """On the first engine that is there, for what is the same on each."""
    name = next((name for name in ENGINES if _find(name)), next(iter(ENGINES)))
    started = Cluster(_address(name), tmp_path_factory.mktemp("cluster"))
    yield started
    started.close()


def _address(name: str) -> str:
    address = _find(name)
    if address is None:
        words = f"{name} is absent; scripts/setup.sh engines-up starts it"
        if os.environ.get("CI") == "true" and "BELLJAR_TEST_ENGINE" not in os.environ:
            pytest.fail(words)
        pytest.skip(words)
    return address


def _find(name: str) -> str | None:
    """The address that scripts/setup.sh engines-up has written, or that is in the environment."""
    variable, only = ENGINES[name], os.environ.get("BELLJAR_TEST_ENGINE", name)
    if only != name:
        return None
    if variable in os.environ:
        return os.environ[variable]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    written = Path(os.environ.get("BELLJAR_CACHE") or f"{cache}/belljar") / "engines.env"
    lines = written.read_text().splitlines() if written.exists() else []
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{variable}=")), None)
