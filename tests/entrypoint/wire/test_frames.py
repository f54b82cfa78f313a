"""Frames as bytes: the golden fixtures that the Rust side runs too, and the line splitter's bounds."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from belljar_sandbox.wire.frames import (
    JOB,
    JOB_DIGITS_MAX,
    SUPERVISOR,
    TO_SANDBOX,
    WORKER,
    Frame,
    FrameError,
    LineSplitter,
    decode,
    deeper_than,
    encode,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "protocol"
OF_CHECKPOINTS = ("checkpoint", "checkpoint_gone")
OF_JOBS = ("job_started", "job_output", "job_taken", "job_ended")
TO_BRIDGE = {
    SUPERVISOR: frozenset(
        (
            *("hello", "worker_started", "worker_exited", "pong", "output", "file", "file_gone", "kept", "taken"),
            *("code", "fault", "denied", "snapshot_done", *OF_CHECKPOINTS, *OF_JOBS),
        )
    ),
    WORKER: frozenset(("call", "cancel", "done")),
    JOB: frozenset(("call", "cancel", "done")),
}
DIRECTIONS = {"to_sandbox": {**TO_SANDBOX, JOB: frozenset(("result",))}, "to_bridge": TO_BRIDGE}
VALID = json.loads((FIXTURES / "valid.json").read_text())
INVALID = json.loads((FIXTURES / "invalid.json").read_text())


def decode_line(line: bytes, direction: Mapping[bytes, frozenset[str]]) -> tuple[bytes, Frame]:
    """Returns the address and the frame of a line without its line feed. The address of a job includes its number."""
    types = direction.get(line[:1])
    if types is None:
        raise FrameError("address")
    if line[:1] != JOB:
        return line[:1], decode(line[1:], types)
    number = line[1:].partition(b"{")[0]
    if not number.isdigit() or len(number) > JOB_DIGITS_MAX:
        raise FrameError("address")
    return line[: 1 + len(number)], decode(line[1 + len(number) :], types)


def named(fixtures: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fixture", fixtures, ids=[fixture["name"] for fixture in fixtures])


@named(VALID)
def test_valid_frame_encodes_to_its_line(fixture: dict[str, Any]) -> None:
    assert fixture["address"].encode() + encode(fixture["frame"]) == fixture["line"].encode() + b"\n"


@named(VALID)
def test_valid_line_decodes_to_its_frame(fixture: dict[str, Any]) -> None:
    decoded = decode_line(fixture["line"].encode(), DIRECTIONS[fixture["direction"]])
    assert decoded == (fixture["address"].encode(), fixture["frame"])


WITHOUT_THE_JSON_PACKAGE = r"""
import sys
from belljar_sandbox.wire.json_reader import reader

read = reader()
assert read(' [1, {"a": Infinity}, -0.5e3, "\u00e9"] \n') == [1, {"a": float("inf")}, -500.0, "\u00e9"]
for text in ("", " ", "x", "{", "[1", "[1] 2", '{"a" 1}', '{"a": tru}', '"a', '"\\x"', "{1: 2}", "[1,]"):
    sys.modules.pop("json.decoder", None)
    try:
        print(text, read(text))
    except ValueError:
        pass
"""


def test_text_that_is_no_json_is_told_as_such_while_nobody_has_imported_the_json_package() -> None:
    entrypoint = Path(__file__).parents[3] / "entrypoint"
    command = [sys.executable, "-c", WITHOUT_THE_JSON_PACKAGE]
    run = subprocess.run(command, check=False, cwd=entrypoint, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("", "")


def test_every_frame_type_has_a_valid_fixture() -> None:
    covered = {(fixture["direction"], fixture["address"][0], fixture["frame"]["type"]) for fixture in VALID}
    declared = {
        (direction, address.decode(), kind)
        for direction, types in DIRECTIONS.items()
        for address, kinds in types.items()
        for kind in kinds
    }
    assert covered == declared


@named([fixture for fixture in INVALID if "line_base64" in fixture])
def test_invalid_line_is_refused_by_kind(fixture: dict[str, Any]) -> None:
    with pytest.raises(FrameError) as caught:
        decode_line(base64.b64decode(fixture["line_base64"]), DIRECTIONS[fixture["direction"]])
    assert caught.value.kind == fixture["error"]


@named([fixture for fixture in INVALID if fixture["error"] == "overlong"])
def test_overlong_line_is_dropped_and_the_next_one_is_read(fixture: dict[str, Any]) -> None:
    splitter = LineSplitter(fixture["bytes"])
    assert splitter.feed(fixture["repeat"].encode() * fixture["bytes"]) == []
    assert splitter.feed(b"rest\nnext\n") == [b"next"]
    assert splitter.dropped == 1


def test_line_of_exactly_the_bound_is_kept() -> None:
    splitter = LineSplitter(8)
    assert splitter.feed(b"1234567\n12345678\n1\n") == [b"1234567", b"1"]
    assert splitter.dropped == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_splitter_finds_the_same_lines_however_the_bytes_arrive(size: int) -> None:
    data = b"a\n\nbcd\n" + b"x" * 40 + b"\nefg\n" + b"y" * 19 + b"\nrest"
    splitter = LineSplitter(20)
    lines = [line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])]
    assert lines == [b"a", b"", b"bcd", b"efg", b"y" * 19]
    assert splitter.dropped == 1


def test_lone_surrogate_is_sent_as_six_characters() -> None:
    line = encode({"type": "done", "value": "a\ud800\\b"})
    assert line == b'{"type":"done","value":"a\\\\ud800\\\\b"}\n'
    assert json.loads(line)["value"] == "a\\ud800\\b"


def test_brackets_in_text_are_no_nesting() -> None:
    text = json.dumps({"a": '[{"\\' * 200}).encode()
    assert not deeper_than(1, text)
    assert deeper_than(0, text)
