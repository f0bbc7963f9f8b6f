"""ssh-exporter: many Xen and OpenVZ hosts watched over ssh, with nothing installed on them.

On a host there is one line in authorized_keys, whose forced command is host.sh: it prints what the exporters of the
platforms read, framed, on request. Here the same parsers make the same metrics of it.

host.sh         what runs on the watched host
authorized_key  the line for authorized_keys
child           ssh, and what it says, within bounds
connection      the child of a host, kept open, how requests fail, and a host's files and programs
hosts           which hosts may be probed, and what their connections are like
openvz_host     an OpenVZ host, as vestat-exporter has it
xen_host        a Xen host, as xentop-exporter has it from xentop's text
exporter        above all: the program, and what a probe answers
"""
