"""kvm-exporter: a KVM host's guests, by /proc and their cgroups, and by libvirt and Proxmox where they manage them.

model has the host's and the guests' values; the files of sources turn what they read into these.
"""
