"""vestat-exporter: an OpenVZ host's containers, by its kernel's files and vzlist.

Each source is a slice, a module that has all of it: what it reads, how that is parsed, its values and its metrics.

vestat        /proc/vz/vestat, stats and version: CPU time and scheduling latency, and the units they are counted in
veinfo        /proc/vz/veinfo: processes and addresses
latency       /proc/vz/latency: the whole host's waits, in vestat's units
quota         /proc/vz/vzquota: disk quotas
beancounters  /proc/bc/resources, /proc/user_beancounters or /proc/bc/*/resources: resources held, allowed and refused
ioacct        /proc/bc/*/ioacct: what containers read and write
vzlist        what vzlist prints: names, host names and templates

procfs        below all of them: files of a mounted procfs, or of a recorded one
recorded      how these files lie in a recording
exporter      above all: the program, and which sources it has
"""
