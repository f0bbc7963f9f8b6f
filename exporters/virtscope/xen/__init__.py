"""xentop-exporter: what Xen's Dom0 knows of its domains, in Prometheus's terms. Each line stands on those below it.

exporter      the command line; which sources there are, live, for a recording and of one
recorded      the recording format of the sources
metrics       one table, from the model's values to metric families
toolstack     what xl or xm answers, kept in the background and joined to the domains of a scrape
text_networks the networks of xentop's domains, from /proc/net/dev
continuity    counters that don't go back, names that don't pass to another domain
xentrace      which domain ran while which waited: a second of Xen's trace in each interval
xl            asking xl or xm                        libxenstat    Xen's library, by ctypes
xentop        `xentop -b` as a child                 runstate      a call that XenServer and XCP-ng add, by ctypes
xl_domains, xl_host, xentop_text, xentrace_file      what these programs write, pure functions
netdev        Dom0's /proc/net/dev                   xenstore      XenStore's socket
devices       vif and vbd as Dom0 counts them        hypervisor    which Xen runs, its own libraries and programs
model         a host and its domains in plain typed values
"""
