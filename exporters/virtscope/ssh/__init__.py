"""ssh-exporter: many Xen and OpenVZ hosts watched over ssh, with nothing installed on them.

A watched host needs one line in authorized_keys with the forced command host.sh, which prints the files and command
output that the platform's exporter reads. The same parsers turn them into the same metrics here.
"""
