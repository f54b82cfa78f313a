#!/bin/sh
# Runs last in the image build: everything that has to be decided on the final root.
set -eu
here=/usr/local/share/belljar

# Before any package is imported here.
python3 "$here/keep-one-copy.py" "$here/installed.txt"
rm -f "$here/keep-one-copy.py" "$here/installed.txt"

# The official images ship their standard library without bytecode, and a read-only root could never add it. An image
# that is built on one of ours has it.
if [ ! -e "$here/compiled" ]; then
    stdlib=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x 'site-packages|dist-packages|/test/|lib2to3/tests' "$stdlib" ||
        echo "finish-image: part of the standard library stays uncompiled" >&2
    : >"$here/compiled"
fi

# The scan of all fonts is the slow part of the first plot. The runtime copies this file into its writable cache.
if [ ! -e "$here/matplotlib" ]; then
    MPLCONFIGDIR="$here/matplotlib" python3 -c 'import matplotlib.font_manager'
    rm -f "$here"/matplotlib/*.lock
fi
chmod -R a+rX "$here"

# no_new_privs makes these bits inert already; an image without them does not depend on that.
find / -xdev -type f \( -perm -4000 -o -perm -2000 \) -exec chmod ug-s {} +

mkdir -p /workspace
chmod 1777 /workspace /tmp
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/debconf/*-old /var/log/*.log /root/.cache
rm -f "$here/finish-image.sh"
