#!/bin/busybox sh
# The first process in the virtual machine of device_vm.sh: this machine's files read-only, memory over them.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod "$module"; done
$b mount -t tmpfs -o size=1400m memory /tmp
$b mkdir -p /tmp/over /tmp/work
how=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $how,cache=loose,ro host /host &&
    $b mount -t overlay -o lowerdir=/host,upperdir=/tmp/over,workdir=/tmp/work root /root || $b poweroff -f
for place in proc sys dev; do $b mount --move /$place /root/$place; done
$b mkdir -p /root/mnt/run
$b mount -t 9p -o $how,cache=none run /root/mnt/run
exec $b switch_root /root /mnt/run/busybox sh /mnt/run/device_vm_guest.sh
