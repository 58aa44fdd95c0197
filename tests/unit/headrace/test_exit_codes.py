import pytest

from headrace.cli.exit_codes import ExitCode, exit_code_for
from schemas.errors import (
    ChecksumMismatchError,
    ConfigurationError,
    FencedError,
    PipelineError,
    PublishError,
    StartUpTimeoutError,
    UnavailableError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), ExitCode.USAGE),
        (ChecksumMismatchError("x"), ExitCode.USAGE),
        (UnavailableError("x"), ExitCode.UNAVAILABLE),
        (StartUpTimeoutError("x"), ExitCode.UNAVAILABLE),
        (PublishError("x"), ExitCode.FAILED),
        (FencedError("x"), ExitCode.FAILED),
    ],
)
def test_an_error_has_the_exit_code_of_its_class(error: PipelineError, code: ExitCode) -> None:
    assert exit_code_for(error) is code
