"""`python -m virtscope.openvz` is vestat-exporter."""

import signal

# A signal before serving or recording ends the process at once; without this, Ctrl-C prints a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from virtscope.openvz.exporter import main  # noqa: E402  the imports are most of a start

if __name__ == "__main__":
    main()
