#!/bin/sh
# Runs in the Containerfile's first stage: installs the locked wheels below OUT, as a tree to be copied over the root.
# usage: install-packages.sh CONTEXT OUT
set -eu
context=$1
out=$2

# build.sh puts the host's bundle here when the host has one of its own; it is used by this stage and not copied on.
if [ -s "$context/ca-bundle.pem" ]; then
    export PIP_CERT="$context/ca-bundle.pem"
fi
# Distributions mark their python as theirs; in an image that serves one purpose nothing else owns it.
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "install-packages: the base image's python is older than 3.11" >&2
    exit 1
}
mkdir -p "$out/usr/local/share/hotcell"
python3 -m pip install --quiet --no-warn-script-location --no-cache-dir --no-compile --no-deps --only-binary=:all: --require-hashes \
    --root "$out" -r "$context/requirements.lock"

# Never imported by user code, a third of the size.
find "$out" -depth -type d \( -path '*/pandas/tests' -o -path '*/scipy/*/tests' -o -path '*/pyarrow/tests' \
    -o -path '*/pyarrow/include' \) -exec rm -rf {} +

# The root is read-only at run time, so bytecode is made now. Unchecked: image layers do not keep exact mtimes.
# -s and -p make tracebacks name the final path.
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$out" -p / "$out/usr/local/lib" ||
    echo "install-packages: some files are not valid for this python and stay uncompiled" >&2

cp "$context/finish-image.sh" "$out/usr/local/share/hotcell/finish-image.sh"
