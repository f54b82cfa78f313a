"""The clock of the sandbox is in the time zone of the user, or in UTC and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Sandbox


@pytest.mark.parametrize(("zone", "shown"), [("Asia/Tokyo", "('Asia/Tokyo', 9.0)"), ("No/Where", "('UTC', 0.0)")])
def test_code_and_its_programs_have_the_time_zone(monkeypatch: pytest.MonkeyPatch, zone: str, shown: str) -> None:
    if zone == "Asia/Tokyo" and not Path("/usr/share/zoneinfo", zone).exists():
        pytest.skip("this machine has no tz database")
    monkeypatch.setenv("TZ", zone)
    code = "import os, datetime\nos.environ['TZ'], datetime.datetime.now().astimezone().utcoffset().seconds / 3600"
    with Sandbox() as sandbox:
        assert sandbox.run(code)["value"] == shown
        done = sandbox.run("import subprocess\nsubprocess.run(['date', '+%Z'], capture_output=True, text=True).stdout")
        assert done["value"] == {"Asia/Tokyo": "'JST\\n'", "No/Where": "'UTC\\n'"}[zone]
