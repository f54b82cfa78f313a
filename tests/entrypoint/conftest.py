"""The sandbox that most tests share the shape of: one fresh runtime per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as started:
        yield started
