import signal

import pytest

from headrace.cli.interruption import as_ctrl_c


def test_a_signal_is_taken_for_ctrl_c_within_the_block_only() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), as_ctrl_c(signal.SIGTERM, signal.SIGHUP):
        signal.raise_signal(signal.SIGHUP)

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_ctrl_c(signal.SIGHUP):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
