#!/bin/sh
# A Linux guest under KVM that runs one program, beside processes that compute:
#
#     qemu.sh VCPUS RIVALS on|off PROGRAM [WORD...]
#
# on, off: whether the guest has Zawrs, so that its waiters nap in wrs.nto, which KVM traps. Its kernel is the file Image, and its
# initramfs, guest.cpio, has the program and guest.c as init. The last line is the CPU time of QEMU with its guest, in ticks of 10 ms:
# in user mode, or in the guest, and in the kernel.
vcpus=$1 rivals=$2 zawrs=$3
shift 3
while [ "$rivals" -gt 0 ]; do
    sh -c 'while :; do :; done' &
    rivals=$((rivals - 1))
done
qemu-system-riscv64 -machine virt -accel kvm -cpu "host,zawrs=$zawrs" -smp "$vcpus" -m 128 -nographic -nodefaults -serial stdio \
    -no-reboot -kernel Image -initrd guest.cpio -append "console=ttyS0 quiet panic=-1 -- $*"
status=$?
echo "ticks: $(cut -d' ' -f16,17 "/proc/$$/stat")"
exit $status
