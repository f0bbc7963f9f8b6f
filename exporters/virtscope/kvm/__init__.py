"""kvm-exporter: a KVM host's guests, by /proc and their cgroups, and by libvirt and Proxmox where they manage them.

host_files    the host's files, live, noted for a recording, or of one
command_line  command lines of QEMU and other monitors: a guest's name, and what it was started with
processes     which processes are guests, and which of the kernel's threads serve them
threads       what each thread of a guest's is for and has used, as counters that never fall
limits        cgroups: caps, weights, throttling
taps          guests' interfaces in /proc/net/dev
guests        all this put together
libvirt       virsh domstats and titles, in the background
proxmox       /etc/pve/qemu-server/*.conf, in the background

model         the host's and the guests' values, on the ground
metrics       one table of them
recorded      how files and answers lie in a recording
exporter      above all: the program, and which sources it has
"""
