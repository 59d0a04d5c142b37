# Hearth. `make demo` and `make test` do all their own set-up.
PY := .venv/bin/python
HEARTH := .venv/bin/hearth
ARGS ?=

.PHONY: help demo test lint setup setup-test bench bench-main bench-dsp bench-capture bench-calibration bench-edge bench-recordings bench-agent lock clean

help:           ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

demo: setup     ## record, process, stream and answer one request, in the virtual room if there is no hardware
	$(HEARTH) demo $(ARGS)

# What keeps time, or plays and records in real time, runs alone; all else runs on two cores at once.
TIMED := $(addprefix tests/capture/test_,live_microphone.py more_cameras.py network_camera.py record_kill.py recorder.py) \
	$(addprefix tests/edge/test_,agent_live.py console_process.py demo.py live_service.py rigs_live.py service_child.py \
	stream_delivery.py stream_hostile.py) \
	$(addprefix tests/real/test_,console_browser.py doctor_pulse.py doctor_rig.py home_assistant.py http_camera.py microphone_backends.py \
	microphone_channels.py microphone_return.py portaudio.py rigs_network.py rtsp_camera.py service_systemd.py)

test: setup-test ## all tests; those with real parts start them themselves (ARGS="tests/dsp -x": only those)
ifeq ($(strip $(ARGS)),)
	@failed=0; $(PY) -m pytest -n 2 --dist loadfile $(TIMED:%=--ignore=%) || failed=1; \
	$(PY) -m pytest $(TIMED) || failed=1; exit $$failed
else
	$(PY) -m pytest $(ARGS)
endif

test-devices: setup ## camera and microphone against Linux's own drivers, in a virtual machine (x86-64 Debian)
	sh scripts/device_vm.sh $(ARGS)

lint: setup     ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup   ## rewrite the code in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: bench-main bench-dsp bench-capture bench-calibration bench-edge bench-recordings bench-agent ## every figure beside its peers (QUICK=1: the short form)

bench-main: setup ## the main job: kill test, live loss and latency, demo seeds
	$(PY) -m bench.main

bench-dsp: setup ## resampling and direction of arrival beside their peers
	$(PY) -m bench.dsp

bench-capture: setup-test ## clock, devices, kills, soak, alignment beside their peers (ARGS="clock kill": parts)
	$(PY) -m bench.capture $(ARGS)

bench-calibration: setup ## every calibration beside its peers (ARGS="camera": a part)
	$(PY) -m bench.calibration $(ARGS)

bench-edge: setup-test ## delivery, security, console and budget of the live path (ARGS="budget": a part)
	$(PY) -m bench.edge $(ARGS)

bench-recordings: setup-test ## plan, sessions, privacy, releases, processing and scores (ARGS="session": a part)
	$(PY) -m bench.recordings $(ARGS)

bench-agent: setup-test ## the agent on generated episodes, and its perception tools alone (ARGS="vision audio": parts)
	sh scripts/voices.sh
	$(PY) -m bench.agent $(ARGS)

setup:
	@sh scripts/setup.sh run

setup-test:
	@sh scripts/setup.sh test

lock: setup     ## rewrite requirements.lock from pyproject.toml
	sh scripts/lock.sh

clean:          ## remove the virtual environment and caches; recorded data stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache build *.egg-info edge/stream/nodejs/node_modules
