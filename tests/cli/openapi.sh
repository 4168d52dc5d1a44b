#!/bin/sh
# Requests that schemathesis generates from the OpenAPI document of the server. The seeds are fixed.
. tests/cli/lib.sh
version=4.32.5
venv=$PWD/build/schemathesis-$version
name="the server keeps to its OpenAPI document"

# install: one virtual environment for all builds; the link to it is made last, so that it is complete
install() {
    [ -x "$venv/bin/schemathesis" ] && return
    folder=$(mktemp -d "$PWD/build/schemathesis.XXXXXX") && python3 -m venv "$folder" &&
        timeout 300 "$folder/bin/python3" -m pip install -q --disable-pip-version-check "schemathesis==$version" && ln -sfn "$folder" "$venv"
}

if ! install >"$work/install.log" 2>&1; then
    if [ "${CI:-}" = true ]; then not_ok "$name" "$(tail -n 3 "$work/install.log" | tr '\n' '~')"
    else skip "$name" "schemathesis cannot be installed"; fi
    exit 0
fi
python3 tests/serve/openapi.py "$work/runs" "$venv/bin/schemathesis" || not_ok "the test of the OpenAPI document finishes"
