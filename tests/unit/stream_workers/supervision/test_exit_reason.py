import signal

import pytest

from stream_workers.supervision.exit_reason import explain_exit


@pytest.mark.parametrize(
    ("return_code", "kill_code", "memory_kills", "code", "detail"),
    [
        (7, None, 0, "model_crashed", "exit code 7"),
        (0, None, 0, "model_crashed", "exit code 0"),
        (-signal.SIGSEGV, None, 0, "model_crashed", "killed by SIGSEGV"),
        (-signal.SIGKILL, None, 0, "model_crashed", "killed by SIGKILL"),
        (-signal.SIGKILL, None, 1, "model_out_of_memory", "killed by the kernel (SIGKILL), out of memory"),
        (-signal.SIGKILL, None, None, "model_out_of_memory", "killed by the kernel (SIGKILL), out of memory"),
        (-signal.SIGKILL, "model_timeout", 1, "model_timeout", "killed by its supervisor (SIGKILL)"),
        (-99, None, 0, "model_crashed", "killed by signal 99"),
    ],
)
def test_an_end_is_explained(
    return_code: int, kill_code: str | None, memory_kills: int | None, code: str, detail: str
) -> None:
    assert explain_exit(return_code, kill_code, memory_kills) == (code, detail)
