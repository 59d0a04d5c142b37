#!/bin/sh
# Runs tests/devices against the kernel's own drivers: in a virtual machine with Debian's kernel, so neither a camera
# nor a microphone nor any driver on this machine is needed. Arguments go to pytest.
#   device_vm.sh [pytest arguments]
# The kernel (about 70 MB) is downloaded as a package into a cache folder and not installed. The machine sees this
# machine's files read-only and writes into memory. It has no network.
#   HEARTH_VM_CACHE   where the packages are kept        HEARTH_VM_ACCEL   tcg (default) or kvm
#   HEARTH_VM_MINUTES give up after so many (default 40)
set -eu
cd "$(dirname "$0")/.."
repository=$(pwd -P)
cache=${HEARTH_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth-device-vm}
accel=${HEARTH_VM_ACCEL:-tcg}
say() { echo "test-devices: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

[ "$(uname -m)" = x86_64 ] || { say "only x86-64 machines can run it; this one is $(uname -m)"; exit 2; }
has apt-get || { say "Debian's packages are needed (apt-get)"; exit 2; }

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if ! has qemu-system-x86_64; then
    say "installing qemu-system-x86"
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86 >/dev/null ||
        { say "MISSING: sudo apt-get install --no-install-recommends qemu-system-x86"; exit 2; }
fi

# ------------------------------------------------------------------ packages, unpacked but not installed
newest() { LC_ALL=C apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1; }
mkdir -p "$cache"
kernel=$(newest)
[ -n "$kernel" ] || { $as_root apt-get update -qq; kernel=$(newest); }
[ -n "$kernel" ] || { say "there is no package linux-image-amd64 here: this needs Debian"; exit 2; }
version=${kernel#linux-image-}
tree=$cache/$version
if [ ! -f "$tree/ready" ]; then
    say "downloading $kernel, busybox-static, alsa-utils into $cache"
    rm -rf "$tree"; mkdir -p "$tree/packages"
    (cd "$tree/packages" && apt-get download -qq "$kernel" busybox-static alsa-utils 2>/dev/null) ||
        { say "the packages could not be downloaded (sudo apt-get update may help)"; exit 2; }
    for package in "$tree"/packages/*.deb; do dpkg-deb -x "$package" "$tree"; done
    rm -rf "$tree/packages"
    busybox=$(ls "$tree"/bin/busybox "$tree"/usr/bin/busybox 2>/dev/null | head -n 1)
    [ "$busybox" = "$tree/busybox" ] || cp "$busybox" "$tree/busybox"
    [ -d "$tree/lib/modules" ] || { mkdir -p "$tree/lib"; mv "$tree/usr/lib/modules" "$tree/lib/modules"; }
    "$tree/busybox" depmod -b "$tree" "$version"

    # The first root: what is needed to reach this machine's files.
    first=$tree/first
    mkdir -p "$first/bin" "$first/modules" "$first/proc" "$first/sys" "$first/dev" "$first/tmp" "$first/host" "$first/root"
    cp "$tree/busybox" "$first/bin/busybox"
    number=10
    for name in virtio_pci 9pnet_virtio 9p overlay; do
        # modules.dep names what a module needs, the nearest first: load in the opposite order.
        for file in $(grep -E "/$name\.ko[^:]*:" "$tree/lib/modules/$version/modules.dep" | tr -d : |
                      awk '{for (i = NF; i > 0; i--) print $i}'); do
            plain=$(basename "$file" .xz)
            [ -z "$(ls "$first/modules" | grep -x "[0-9]*-$plain" || true)" ] || continue
            case "$file" in
                *.xz) xz -dc "$tree/lib/modules/$version/$file" > "$first/modules/$number-$plain" ;;
                *) cp "$tree/lib/modules/$version/$file" "$first/modules/$number-$plain" ;;
            esac
            number=$((number + 1))
        done
    done
    cp scripts/device_vm_init.sh "$first/init"; chmod +x "$first/init"
    touch "$tree/ready"
fi
cp scripts/device_vm_init.sh "$tree/first/init"; chmod +x "$tree/first/init"
(cd "$tree/first" && find . | "$tree/busybox" cpio -o -H newc 2>/dev/null | gzip -1) > "$tree/first.gz"

# ------------------------------------------------------------------ one run
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
cp "$tree/busybox" scripts/device_vm_guest.sh "$run/"

# Compiling with numba takes minutes in an emulated machine: compile here, for a processor that both have.
export NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR="$cache/numba"
say "compiling what a take needs"
.venv/bin/python hearth.py record --seconds 1 --folder "$run/warm" --json >/dev/null 2>"$run/warm.log" ||
    { say "hearth record in the virtual room does not work here:"; tail -n 5 "$run/warm.log" >&2; exit 1; }
rm -rf "$run/warm"

quoted=""
for argument in "$@"; do quoted="$quoted '$(printf %s "$argument" | sed "s/'/'\\\\''/g")'"; done
{
    echo "export NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR='$NUMBA_CACHE_DIR' HEARTH_DEVICE_VM=1"
    echo "export HEARTH_APLAY='$tree/usr/bin/aplay' PYTHONDONTWRITEBYTECODE=1"
    echo "mkdir -p /lib/modules; mount --bind '$tree/lib/modules' /lib/modules"
    echo "cd '$repository'"
    echo ".venv/bin/python -m pytest -o timeout=1800 -o addopts= -ra -p no:cacheprovider ${quoted:-tests/devices}"
} > "$run/job.sh"

case $accel in kvm) how="-accel kvm -cpu host" ;; *) how="-accel tcg,tb-size=512 -cpu max" ;; esac
say "starting $version with $accel"
share() { echo "-fsdev local,id=$1,path=$2,security_model=none,multidevs=remap$3 -device virtio-9p-pci,fsdev=$1,mount_tag=$1"; }
# shellcheck disable=SC2046,SC2086  # lists of words are meant
timeout "$((60 * ${HEARTH_VM_MINUTES:-40}))" nice -n 10 qemu-system-x86_64 $how -M pc -m 2048 -smp "${HEARTH_VM_CORES:-1}" \
    -nodefaults -no-reboot -display none -serial stdio \
    -kernel "$tree/boot/vmlinuz-$version" -initrd "$tree/first.gz" \
    -append "console=ttyS0 panic=-1 quiet loglevel=3 mitigations=off" \
    $(share host / ,readonly=on) $(share run "$run" "") </dev/null | tr -d '\r' || true
if [ -f "$run/exit" ]; then exit "$(cat "$run/exit")"; fi
say "the virtual machine ended before the tests did"
exit 1
