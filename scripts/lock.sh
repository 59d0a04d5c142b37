#!/bin/sh
# Rewrites requirements.lock: every default, perception, home and dev dependency, pinned with hashes, for Python 3.10-3.12
# on x86-64 and aarch64; and what of it a Jetson needs to run (edge/service/container). Run it after changing pyproject.toml (`make lock`).
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-.venv/bin/uv}
[ -x "$UV" ] || .venv/bin/python -m pip install --quiet uv
"$UV" pip compile pyproject.toml --extra perception --extra home --extra dev --universal --python-version 3.10 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock
for python in 3.10 3.12; do
    "$UV" pip compile pyproject.toml --constraints requirements.lock --python-version "$python" \
        --python-platform aarch64-manylinux_2_28 --only-binary :all: --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-header --quiet \
        --output-file "edge/service/container/aarch64-python$python.txt"
done
