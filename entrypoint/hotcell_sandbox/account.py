"""An account for the user of the sandbox, whose number /etc/passwd of the image does not have.

Podman adds the account to /etc/passwd, Docker does not. Libraries look it up by `pwd`; other programs are not helped here.
"""

from __future__ import annotations

import os
import pwd


def provide(home: str) -> None:
    """Has `pwd` know this process's user, if it does not."""
    uid, name = os.getuid(), os.environ.get("USER", "sandbox")
    by_number, by_name = pwd.getpwuid, pwd.getpwnam
    try:
        by_number(uid)
        return
    except KeyError:
        pass
    account = pwd.struct_passwd((name, "x", uid, os.getgid(), "", home, "/bin/sh"))
    pwd.getpwuid = lambda number: account if number == uid else by_number(number)
    pwd.getpwnam = lambda wanted: account if wanted == name else by_name(wanted)
