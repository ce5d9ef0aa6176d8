"""Signals that ask a command to stop; discards output when the terminal is closed."""

import errno
import os
import signal
import termios


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that request a stop; under ``nohup``, SIGHUP is not one of them."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_closed_terminal() -> None:
    """If the terminal was closed, discard further output, because writing it would fail."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
