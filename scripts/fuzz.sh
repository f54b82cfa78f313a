#!/usr/bin/env bash
# Runs fuzz targets one after the other and says what each has done. A finding does not keep the later ones from running;
# its input is left in fuzz/artifacts. Inputs that add coverage are gathered beside the build, not among the committed ones.
#
# usage: scripts/fuzz.sh SECONDS [TARGET...]; all targets without one.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${BELLJAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar}
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
export PATH="$PATH:$cache/tools/bin"
duration=${1:?usage: scripts/fuzz.sh SECONDS [TARGET...]}
shift

main() {
    local name names status=0 report=()
    scripts/setup.sh fuzz
    if [ $# = 0 ]; then
        mapfile -t names < <(cargo +nightly fuzz list --fuzz-dir fuzz)
        set -- "${names[@]}"
    fi
    mkdir -p "$target/logs"
    for name in "$@"; do
        printf '\n=== %s, %s s\n' "$name" "$duration"
        if run "$name" 2>&1 | tee "$target/logs/$name.log" | progress; then
            report+=("$(printf '%-18s ok       %s' "$name" "$(figures "$name")")")
        else
            report+=("$(printf '%-18s FAILED   %s' "$name" "$(figures "$name")")")
            status=1
        fi
    done
    printf '\n=== summary\n'
    printf '%s\n' "${report[@]}"
    return "$status"
}

# The first folder is where new inputs go.
run() {
    mkdir -p "$target/corpus/$1"
    cargo +nightly fuzz run --fuzz-dir fuzz --target-dir "$target" "$1" "$target/corpus/$1" "fuzz/corpus/$1" -- \
        -max_total_time="$duration" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 </dev/null
}

# Every input that is found has a line; these are the others.
progress() { grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|RELOAD) ' || true; }

# From the closing lines of libFuzzer.
figures() {
    awk '
        /cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") features = $(i + 1) } }
        /^stat::number_of_executed_units:/ { executions = $2 }
        END { printf "%d executions, %d edges, %d features", executions, cov, features }' "$target/logs/$1.log"
}

main "$@"
