# Finds Debian's chromium, and installs it if needed. Sourced after lib.sh; $browser: its path, or empty.
# shellcheck shell=sh disable=SC2154,SC2034
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ] && [ "${INFERPROF_NO_BROWSER:-0}" = 0 ]; then
    timeout 300 sh scripts/deps.sh browser >"$work/deps.log" 2>&1
    browser=$(command -v chromium || true)
fi
# browser_or_skip NAME: ends the script with a skip of this name if there is no browser
browser_or_skip() {
    [ -n "$browser" ] && return
    skip "$1" "chromium is not installed, and installing it failed: $(tail -n 1 "$work/deps.log" 2>/dev/null)"
    exit 0
}
