"""Runs a ``mainstem`` command as a child process that stops when its stdin is closed.

Usage: ``python -m mainstem.cli.child_process COMMAND ...``. Stdin is a pipe whose other end is open
in the processes that need the command. When all of them have ended, even by ``kill -9``, the pipe
closes and the command gets a SIGTERM.
"""

import os
import signal
import threading
import time

from mainstem.cli import main

_FINISH_S = 60.0
"""Seconds until a second SIGTERM, which ends the command without waiting for requests; after as
long again it is killed.
"""


def _stop_at_end_of_stdin() -> None:
    while os.read(0, 4096):
        pass
    stopper = threading.main_thread().ident
    assert stopper is not None
    # A second signal makes the command stop without waiting for anything.
    for _ in range(2):
        signal.pthread_kill(stopper, signal.SIGTERM)
        time.sleep(_FINISH_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end_of_stdin, daemon=True).start()
    main()
