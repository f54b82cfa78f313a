"""Gives the user of the sandbox an account in `pwd`, for libraries that look it up.

The image's /etc/passwd does not have this user. Podman adds an entry, Docker does not. Other programs do not see it.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable


def provide(home: str) -> None:
    """Makes `pwd` return an account for this process's user if /etc/passwd has none."""
    uid, name = os.getuid(), os.environ.get("USER", "")
    account = pwd.struct_passwd((name, "x", uid, os.getgid(), "", home, "/bin/sh"))

    def with_account(look: Callable[..., pwd.struct_passwd], own: object) -> Callable[[object], pwd.struct_passwd]:
        def looked(wanted: object, /) -> pwd.struct_passwd:
            try:
                return look(wanted)
            except KeyError:
                if wanted != own:
                    raise
                return account

        return looked

    pwd.getpwuid, pwd.getpwnam = with_account(pwd.getpwuid, uid), with_account(pwd.getpwnam, name)
