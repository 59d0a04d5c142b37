#!/bin/sh
# Installs the system packages that Hearth uses, where the machine allows it, and says plainly what is
# missing where it does not. It never fails: everything that does not need the missing part still runs.
#   system_packages.sh run    what recording needs
#   system_packages.sh test   what the tests with real parts need as well
set -u
want=${1:-run}

has_lib() { ldconfig -p 2>/dev/null | grep -q "$1" || /sbin/ldconfig -p 2>/dev/null | grep -q "$1"; }
has_cmd() { command -v "$1" >/dev/null 2>&1; }
alsa_pulse() { ls /usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so >/dev/null 2>&1; }

missing=""
need() { missing="$missing $1"; }
has_lib libportaudio.so.2 || need libportaudio2
python3 -c 'import ensurepip' >/dev/null 2>&1 || need python3-venv
# It speaks the requests of a plan in the virtual room.
has_cmd espeak-ng || need espeak-ng
if [ "$want" = test ]; then
    has_cmd pulseaudio || need pulseaudio
    has_cmd pactl || need pulseaudio-utils
    alsa_pulse || need libasound2-plugins
    has_cmd ffmpeg || need ffmpeg
    # The RTSP camera of the tests: GStreamer's server, about 6 MB beside FFmpeg's libraries.
    ls /usr/lib/*/girepository-1.0/GstRtspServer-1.0.typelib >/dev/null 2>&1 || need gir1.2-gst-rtsp-server-1.0
    /usr/bin/python3 -c 'import gi' >/dev/null 2>&1 || need python3-gi
    ls /usr/lib/*/gstreamer-1.0/libgstrtp.so >/dev/null 2>&1 || need gstreamer1.0-plugins-good
    # The MQTT broker of the tests with a real home; Debian keeps it out of the usual path.
    has_cmd mosquitto || [ -x /usr/sbin/mosquitto ] || need mosquitto
    has_cmd node || need nodejs
    has_cmd npm || need npm
    # The browser in which pages are tested.
    has_cmd chromium || has_cmd chromium-browser || has_cmd google-chrome || need chromium
    # PyAudio has no Linux wheel: it is built, so that both sound backends are tested.
    [ -f /usr/include/portaudio.h ] || need portaudio19-dev
    has_cmd cc || need gcc
    python3 -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        need python3-dev
fi
[ -z "$missing" ] && exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    if has_cmd sudo && sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=no; fi
fi
if [ "$as_root" != no ] && has_cmd apt-get; then
    echo "setup: installing system packages:$missing" >&2
    log=$(mktemp)
    # shellcheck disable=SC2086  # a list of words is meant
    if { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
         $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1
    then rm -f "$log"; exit 0; fi
    echo "setup: apt-get could not install them; its last lines:" >&2
    tail -n 3 "$log" >&2; rm -f "$log"
fi
echo "setup: MISSING system packages:$missing" >&2
echo "setup: install them with: sudo apt-get install$missing" >&2
case "$missing" in *libportaudio2*) echo "setup: without libportaudio2 no microphone can be opened; files and the virtual room work." >&2 ;; esac
case "$missing" in *espeak-ng*) echo "setup: without espeak-ng no plan can be recorded in the virtual room; all else works." >&2 ;; esac
[ "$want" = test ] && echo "setup: tests that need a missing part are skipped, and say so." >&2
exit 0
