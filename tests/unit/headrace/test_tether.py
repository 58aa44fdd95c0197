import os
import subprocess
import sys

import pytest

from headrace.local_stack.tether import EXIT_ORPHANED, parse_arguments, tethered_command


def test_the_command_is_what_follows_the_dashes() -> None:
    assert parse_arguments(["--parent", "7", "--", "java", "--", "-x"]) == (7, ["java", "--", "-x"])
    assert parse_arguments(["--", "java"]) == (None, ["java"])


@pytest.mark.parametrize("arguments", [[], ["java"], ["--"], ["--parent", "x", "--", "java"], ["--what", "--", "java"]])
def test_a_malformed_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_arguments(arguments)


def test_a_tethered_command_keeps_its_pid_and_exit_code() -> None:
    command = tethered_command([sys.executable, "-I", "-S", "-c", "import os, sys; print(os.getpid()); sys.exit(5)"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate()
    assert (int(printed), process.returncode) == (process.pid, 5)


def test_a_command_whose_parent_is_gone_already_does_not_run() -> None:
    command = tethered_command([sys.executable, "-c", "print('ran')"], parent=os.getppid())
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EXIT_ORPHANED, "")


def test_a_command_that_does_not_exist_is_named() -> None:
    done = subprocess.run(tethered_command(["/no/such/thing"]), capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "cannot run /no/such/thing" in done.stderr
