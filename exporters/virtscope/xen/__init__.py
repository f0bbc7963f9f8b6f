"""xentop-exporter: metrics of Xen's domains, collected in Dom0. Each module uses only modules further down.

exporter      the command line; the sources: live, recording, playback
recorded      the recording format of the sources
metrics       tables that map the model's values to metric families
toolstack     answers of xl or xm, polled in the background and joined to the domains of a scrape
text_networks the networks of xentop's domains, from /proc/net/dev
continuity    monotonic counters, and names that are never reused for another domain
xentrace      attribution of CPU wait: a second of Xen's trace in each interval
xl            running xl or xm                       libxenstat    Xen's library, by ctypes
xentop        `xentop -b` as a child                 runstate      a call of XenServer's and XCP-ng's Xen, by ctypes
xl_domains, xl_host, xentop_text, xentrace_file      parsers for these programs' output, pure functions
netdev        Dom0's /proc/net/dev                   xenstore      XenStore's socket
devices       vif and vbd as Dom0 counts them        hypervisor    the running Xen, its libraries and programs
model         a host and its domains in plain typed values
"""
