"""`runtime.state`: small values that outlive variables, in a JSON file in the workspace.

The file is read and written at each use, so that an interpreter sees the latest values after a rollback or restart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, MutableMapping
from fcntl import LOCK_EX, LOCK_UN, flock

from ..kernel.type_names import Any

BYTES_MAX = 256 * 1024
_NAME = ".state.json"


class State(MutableMapping[str, "Any"]):
    """`runtime.state["key"] = value`: JSON values, 256 KiB in all, as lasting as the files in /workspace."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, _NAME) if folder else ""

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __setitem__(self, key: str, value: object) -> None:
        if type(key) is not str:
            raise TypeError(f"a key of runtime.state is a str, not {type(key).__name__}")
        try:
            plain = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise type(error)(f"runtime.state[{key!r}] takes JSON values: {error}") from None
        self._change(lambda values: values.__setitem__(key, plain))

    def __delitem__(self, key: str) -> None:
        self._change(lambda values: values.__delitem__(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"runtime.state({self._read()!r})"

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, "rb") as file:
                values = json.loads(file.read(2 * BYTES_MAX))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ValueError(f"{self._path} is no JSON ({error}); correct or remove it") from None
        if type(values) is not dict:
            raise ValueError(f"{self._path} holds no JSON object; correct or remove it")
        return values

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        if not self._folder:
            raise RuntimeError("this sandbox keeps no files, and so no state")
        # Jobs and threads write, too. Nobody else may write between reading and writing.
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flock(folder, LOCK_EX)
            values = self._read()
            change(values)
            self._write(values)
        finally:
            # Closing the folder does not unlock it if a copy of the interpreter that was made meanwhile has it open.
            flock(folder, LOCK_UN)
            os.close(folder)

    def _write(self, values: dict[str, Any]) -> None:
        data = json.dumps(values).encode()
        if len(data) > BYTES_MAX:
            raise ValueError(f"runtime.state holds at most {BYTES_MAX:,} bytes of JSON; keep larger things in files")
        # Written beside the file and renamed, so that the file is always complete.
        part = self._path + ".part"
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, self._path)
