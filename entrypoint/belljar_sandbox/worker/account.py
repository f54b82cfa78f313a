"""An account for the user of the sandbox, whose number /etc/passwd of the image does not have.

Podman adds one to /etc/passwd by number, Docker adds none. Libraries find it by `pwd`. It does not help other programs.
"""

from __future__ import annotations

import os
import pwd


def provide(home: str) -> None:
    """Has `pwd` know this process's user where /etc/passwd does not."""
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
