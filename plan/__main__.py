"""``python -m plan``, and what the command ``plan`` calls."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until our own is in place an interrupt ends the process without a traceback of half an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from plan.cli import main

if __name__ == "__main__":
    main()
