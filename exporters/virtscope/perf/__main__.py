"""`python -m virtscope.perf` is perf-exporter."""

import signal

# Until it serves or records, a signal ends it at once, whatever it waits for; without this, Ctrl-C prints a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from virtscope.perf.exporter import main  # noqa: E402  the imports are most of a start

if __name__ == "__main__":
    main()
