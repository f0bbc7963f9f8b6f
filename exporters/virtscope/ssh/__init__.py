"""ssh-exporter: many Xen and OpenVZ hosts watched over ssh, with nothing installed on them.

On a host there is one line in authorized_keys, whose forced command is host.sh: it prints what the exporters of the
platforms read, framed, on request. Here the same parsers make the same metrics of it.
"""
