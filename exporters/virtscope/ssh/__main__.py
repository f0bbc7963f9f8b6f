"""`python -m virtscope.ssh` is ssh-exporter."""

import signal

# A signal before serving ends the process at once; without this, Ctrl-C prints a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from virtscope.ssh.exporter import main  # noqa: E402  the imports are most of a start

if __name__ == "__main__":
    main()
