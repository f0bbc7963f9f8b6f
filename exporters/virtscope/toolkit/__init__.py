"""What every exporter shares.

program, flags, durations, logs     the command line and its main()
starting                            before these: what a signal does while they are imported
server, webconfig                   HTTP, TLS and passwords
exporter, sources, background       a scrape: all sources at once under one deadline, slow ones read beforehand
commands                            programs that a source runs
families, blocks                    how metrics modules make families
exposition, lines, compression      families as the bytes of a page
record, recording, standins         `record`: what sources give, written to a file, with stand-ins for names
replay                              such a file as a source
"""
