#!/usr/bin/env bash
# Sets up what is missing, checks, tests, and says at the end which engines were tested. A failed step does not keep the
# later ones from running, so that one call shows all that is wrong.
#
# usage: scripts/test.sh         every test on the first engine that is there, and a smoke set on each other one; sandboxes
#                                without a container engine count as the last engine
#        scripts/test.sh all     the tests that depend on the engine on every engine, also with CI=true, where an absent
#                                engine is a failure
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${BELLJAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar}
target=${CARGO_TARGET_DIR:-target}
dev=$cache/dev/bin
# In .config/nextest.toml.
profile=$([ "${CI:-}" = true ] && echo ci || echo default)
scope=$([ "${CI:-}" = true ] && echo all || echo "${1:-quick}")
# The modules of tests/live that run on every engine in any case.
smoke='lifecycle|mounts|users'
export PATH="$PATH:$dev"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
report=()

main() {
    # Without its engines and tools nothing below means anything, so this step is allowed to end the run.
    scripts/setup.sh test
    echo "advisories are not checked: their database is on the network; run 'cargo deny check advisories' by hand"

    step "rustfmt" cargo fmt --all --check
    step "rustfmt fuzz" cargo fmt --manifest-path fuzz/Cargo.toml --check
    step "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
    step "dependencies" cargo deny --locked check --hide-inclusion-graph bans licenses sources
    step "rustdoc" env RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --document-private-items
    step "mypy" "$dev/mypy"
    step "mypy scripts" env MYPYPATH=scripts "$dev/mypy" --strict scripts/demo.py scripts/demo_data.py scripts/engine_api.py scripts/book.py scripts/count_lines.py
    step "mypy packaging" env MYPYPATH=packaging "$dev/mypy" --strict packaging/package.py packaging/check.py
    step "mypy clients" env MYPYPATH=tests/clients "$dev/mypy" --strict tests/clients/run.py tests/clients/model.py tests/clients/codex_app_server.py tests/clients/recording.py tests/clients/inspector.py
    step "mypy stand-in" env MYPYPATH=tests/support/cluster "$dev/mypy" --strict tests/support/cluster/main.py
    step "mypy cluster" env MYPYPATH=tests/cluster "$dev/mypy" --strict tests/cluster/test_stand_in.py tests/cluster/test_recorded_answers.py tests/cluster/test_manifests.py tests/cluster/conftest.py
    step "ruff" "$dev/ruff" check entrypoint tests scripts packaging
    step "ruff format" "$dev/ruff" format --check entrypoint tests scripts packaging
    step "pytest" "$dev/pytest" -n "$(nproc)"
    step "build" cargo nextest run --locked --workspace --no-run
    store_compiled_code
    # Most tests wait: for engines, servers and Python.
    step "nextest" cargo nextest run --locked --workspace --no-fail-fast --profile "$profile" --test-threads $((2 * $(nproc))) \
        -E "$(tests_to_run)"
    step "chaos" cargo test --locked --test chaos -- --rounds 12 --seed 1 --seconds 30
    step "soak" cargo test --locked --test soak -- --seconds 15 --seed 1
    engines_demo
    summary
}

# usage: step NAME COMMAND...; counts the tests that the command reports, or the command itself as one.
step() {
    local name=$1 started=$SECONDS good=0 bad=0
    shift
    printf '\n=== %s\n' "$name"
    if "$@" </dev/null 2>&1 | tee "$log"; then
        good=$(count passed)
        passed=$((passed + (good > 0 ? good : 1)))
        report+=("$(printf '%-12s ok      %4d s' "$name" $((SECONDS - started)))")
    else
        good=$(count passed)
        bad=$(count failed)
        passed=$((passed + good))
        failed=$((failed + (bad > 0 ? bad : 1)))
        report+=("$(printf '%-12s FAILED  %4d s' "$name" $((SECONDS - started)))")
    fi
}

# The number before a word in the closing lines of nextest, pytest or libtest.
count() {
    sed 's/\x1b\[[0-9;]*m//g' "$log" |
        awk -v word="$1" '
            /^ *Summary \[/ || /^test result:/ || /^([0-9]+ [a-z]+, )*[0-9]+ [a-z]+ in [0-9.]+s/ {
                for (i = 2; i <= NF; i++) if ($i ~ "^" word "[,;]?$") sum += $(i - 1)
            }
            END { print sum + 0 }'
}

# The addresses of the engines that are there, as lines NAME=ADDRESS, the preferred one first.
engines() { grep '^BELLJAR_TEST_[A-Z_]*=unix:' "$cache/engines.env" || true; }

# The same, and sandboxes without a container engine.
all_engines() {
    engines
    [ "$(uname -s)" != Linux ] || echo "BELLJAR_TEST_PROCESS=process"
}

# A test that runs on each engine has the engine's name at the end of its own.
tests_to_run() {
    local others
    others=$(all_engines | tail -n +2 | while IFS='=' read -r variable _; do engine_name "$variable"; done |
        tr '-' '_' | paste -sd '|')
    if [ "$scope" = all ] || [ -z "$others" ]; then
        echo 'all()'
    else
        # Without a container engine the confinement is belljar's own, so its probes run too.
        echo "not test(/::($others)\$/) or (binary(live) and test(/^($smoke)::/)) or (binary(probes) and test(/::process\$/))"
    fi
}

# Has belljar store the compiled code of the sandboxes' runtime, of which each test's home gets a copy: a test that finds
# none compiles it itself.
store_compiled_code() {
    local line home
    home=$(realpath -m "$target")/tmp/home
    mkdir -p "$home"
    while read -r line; do
        env HOME="$home" XDG_DATA_HOME="$(test_environment)" MCP_BRIDGE_RUNTIME="${line#*=}" \
            "$target/debug/belljar" run -c 1 </dev/null >/dev/null 2>&1 || true
    done < <(all_engines)
}

# The demonstrations, with the binary that the tests have built.
engines_demo() {
    local line
    XDG_DATA_HOME=$(test_environment)
    export XDG_DATA_HOME
    while read -r line; do
        step "demo $(engine_name "${line%%=*}")" env MCP_BRIDGE_RUNTIME="${line#*=}" \
            python3 scripts/demo.py "$target/debug/belljar"
        step "demo-data $(engine_name "${line%%=*}")" env MCP_BRIDGE_RUNTIME="${line#*=}" \
            python3 scripts/demo_data.py "$target/debug/belljar"
    done < <(if [ "$scope" = all ]; then all_engines; else all_engines | head -n 1; fi)
}

# The packages for sandboxes without a container engine that the tests have made last.
test_environment() {
    find "$cache/test-environments" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' 2>/dev/null |
        sort -n | tail -n 1 | cut -d' ' -f2- || true
}

engine_name() { tr 'A-Z_' 'a-z-' <<<"${1#BELLJAR_TEST_}"; }

# What was run on an engine.
extent() {
    local first
    # Not `head`, which would end `all_engines` by SIGPIPE.
    first=$(all_engines | sed -n 1p)
    if [ "$scope" = all ] || [[ $first == "$1="* ]]; then
        echo tested
    else
        echo "smoke tests only; 'make test-all' runs the others"
    fi
}

summary() {
    local variable address absent line
    absent=$(sed -n 's/^BELLJAR_TEST_ABSENT="\(.*\)"$/\1/p' "$cache/engines.env")
    printf '\n=== summary\n'
    printf '%s\n' "${report[@]}"
    for variable in BELLJAR_TEST_PODMAN_ROOTFUL BELLJAR_TEST_PODMAN_ROOTLESS BELLJAR_TEST_DOCKER; do
        address=$(sed -n "s/^$variable=//p" "$cache/engines.env")
        if [ -n "$address" ]; then
            echo "engine $(engine_name "$variable"): $(extent "$variable") ($address)"
            continue
        fi
        line=$(grep -oE "$(engine_name "$variable"): [^;]*" <<<"$absent" || echo "$(engine_name "$variable"): not started")
        echo "engine ${line%%:*}: ABSENT:${line#*:}"
        [ "${CI:-}" != true ] || failed=$((failed + 1))
    done
    [ "$(uname -s)" != Linux ] || echo "engine process: $(extent BELLJAR_TEST_PROCESS) (no container engine)"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

main "$@"
