#!/bin/sh
# Gives the bridge a folder for locks and sockets whose path no other volume has. Sandboxes are marked with that path. A
# bridge removes sandboxes with the mark of its own path whose lock nobody holds, and it cannot see locks in other volumes.
set -- "$HOME/.run-$(id -u)-" "$@"
for run in "$1"*; do
    break
done
[ -d "$run" ] || run=$(mktemp -d "$1XXXXXX")
shift
XDG_RUNTIME_DIR=$run exec /usr/local/lib/belljar "$@"
