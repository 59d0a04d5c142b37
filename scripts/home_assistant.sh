#!/bin/sh
# Installs Home Assistant 2024.3.3 (the last that runs on Python 3.11) for the tests with a real one, in an
# environment of its own: its pins are not ours. Does nothing when it is there. About 600 MB, half a minute.
set -eu
cd "$(dirname "$0")/.."
where=.venv/home-assistant
stamp=$where/.hearth-setup
now=$(sha256sum < scripts/home_assistant.lock)
[ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && exit 0

python=""
for candidate in python3.11 python3.12 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null; then
        python=$(command -v "$candidate"); break
    fi
done
[ -n "$python" ] || { echo "setup: Home Assistant 2024.3.3 needs Python 3.11 or 3.12" >&2; exit 1; }
[ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
rm -rf "$where"
here=$PWD
# From elsewhere: uv would take the bounds of our pyproject.toml for bounds of Home Assistant.
(cd / && "$here/.venv/bin/uv" venv --quiet --python "$python" "$here/$where" &&
    "$here/.venv/bin/uv" pip install --quiet --python "$here/$where/bin/python" --require-hashes \
        -r "$here/scripts/home_assistant.lock")
echo "$now" > "$stamp"
