"""kvm-exporter: a KVM host's guests, from /proc and cgroups, and from libvirt and Proxmox if they manage them.

model defines the host's and the guests' values; each source has a file that produces them.
"""
