"""Gives the user of the sandbox an account in `pwd`, for libraries that look it up.

The image's /etc/passwd does not have this user. Podman adds an entry, Docker does not. Other programs do not see it.
"""

from __future__ import annotations

import os
import pwd


def provide(home: str) -> None:
    """Makes `pwd` return an account for this process's user if /etc/passwd has none."""
    uid, name = os.getuid(), os.environ.get("USER", "")
    account = pwd.struct_passwd((name, "x", uid, os.getgid(), "", home, "/bin/sh"))
    by_number, by_name = pwd.getpwuid, pwd.getpwnam

    def getpwuid(number: int, /) -> pwd.struct_passwd:
        try:
            return by_number(number)
        except KeyError:
            if number != uid:
                raise
            return account

    def getpwnam(wanted: str, /) -> pwd.struct_passwd:
        try:
            return by_name(wanted)
        except KeyError:
            if wanted != name:
                raise
            return account

    pwd.getpwuid, pwd.getpwnam = getpwuid, getpwnam
