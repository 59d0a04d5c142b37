#!/bin/sh
# Makes .venv-voices: natural voices for the people of the virtual room (Participant.voice: natural_1 ... natural_5),
# for figures of recognition. About 300 MB. Hearth runs without them; espeak-ng then speaks.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv-voices/.hearth-setup
now=$(cat scripts/voices.lock scripts/voices.sh | sha256sum | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && exit 0
python=${PYTHON:-python3}
[ -x .venv/bin/python ] && python=.venv/bin/python
[ -x .venv-voices/bin/python ] || "$python" -m venv .venv-voices
.venv-voices/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r scripts/voices.lock
echo "$now" > "$stamp"
