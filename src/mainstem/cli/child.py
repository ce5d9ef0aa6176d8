"""``python -m mainstem.cli.child …``: a ``mainstem`` command that stops when its stdin is closed.

Its stdin is a pipe that only those hold open who need the command. If they end, also by
``kill -9``, the command gets a SIGTERM, as if they had sent it themselves.
"""

import os
import signal
import threading
import time

from mainstem.cli import main

_FINISH_S = 60.0
"""Time to finish what was begun, and again to give up on it."""


def _stop_at_end_of_stdin() -> None:
    while os.read(0, 4096):
        pass
    stopper = threading.main_thread().ident
    assert stopper is not None
    # The second one waits for nothing any more.
    for _ in range(2):
        signal.pthread_kill(stopper, signal.SIGTERM)
        time.sleep(_FINISH_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end_of_stdin, daemon=True).start()
    main()
