"""What the exit code of the `headrace` command means, and which error leads to which."""

import enum

from schemas.errors import ConfigurationError, ModelStoreError, PipelineError, UnavailableError


class ExitCode(enum.IntEnum):
    """The exit codes of every subcommand."""

    OK = 0
    """What was asked for was done."""
    FAILED = 1
    """It was tried, and the outcome is not the wanted one."""
    USAGE = 2
    """The command line, the settings or the model store cannot work: trying again changes nothing."""
    UNAVAILABLE = 3
    """An outside system did not answer: trying again may help."""
    INTERRUPTED = 130
    """Ctrl-C before the work was done."""


def exit_code_for(error: PipelineError) -> ExitCode:
    """The exit code for an error that reached the top."""
    if isinstance(error, ConfigurationError | ModelStoreError):
        return ExitCode.USAGE
    if isinstance(error, UnavailableError):
        return ExitCode.UNAVAILABLE
    return ExitCode.FAILED
