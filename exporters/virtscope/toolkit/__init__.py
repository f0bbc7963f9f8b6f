"""What every exporter shares; it knows no platform. Each file imports only from those above it:

collect       sources: read under a scrape's deadline by a thread of their own, or in the background
memory        files in memory, for what takes a path alone
bounded       what a source reads: files and programs' output, within bounds of size and time
hierarchy     the cgroups of the machine: where they are mounted, folders that globs choose
layouts       whose a cgroup is, by its path
lines         the parts of an exposition's lines
families      plain values to metric families, of samples or of blocks that are kept
exposition    families to the bytes of a page: text format or OpenMetrics, and gzip
scrape        one scrape of an exporter: its sources, its own state and cost, its process
webconfig     --web.config.file: TLS and passwords
answering     which request is answered next, in threads
pages         HTTP: a request's head to the whole response
server        TCP and TLS, and how much of it each client gets
recording     the format of recordings
record        `record`: what sources give, written to a recording
replay        a recording as a source
durations     how Prometheus writes them
cli           flags, log, and a main() that serves until it is to stop
"""
