"""The functions and numbers of `socket`, from its part in C: the import of `socket` takes 3 ms at each start."""

from __future__ import annotations

from _socket import *  # noqa: F403
