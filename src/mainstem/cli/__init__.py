"""The command line, ``mainstem``; its commands use the Stem interface of ``client/stem.py``."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run the command line as a program; after a signal, exit by that signal, as shells expect."""
    # Collecting garbage while modules are imported would find nothing and cost time.
    gc.disable()
    # If the reader of our output ends, or Ctrl-C is pressed, close the log first, and then exit by
    # that signal, as other tools do.
    from mainstem.cli.exit_codes import by_signal, one_line  # noqa: PLC0415
    from mainstem.cli.root import run  # noqa: PLC0415 - importing the package stays cheap
    from mainstem.cli.signals import stop_signals  # noqa: PLC0415

    gc.enable()
    _fill_closed_streams()
    sys.excepthook = one_line
    # For SIGINT, Python raises KeyboardInterrupt.
    for number in stop_signals():
        if number != signal.SIGINT:
            signal.signal(number, by_signal)
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    if code > 128:
        # Discard buffered output, as nobody reads it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        signal.signal(code - 128, signal.SIG_DFL)
        os.kill(os.getpid(), code - 128)
    sys.exit(code)


def _fill_closed_streams() -> None:
    # With stdout closed (`>&-`), a segment could get descriptor 1, and output would go there.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
