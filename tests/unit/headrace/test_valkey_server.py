from pathlib import Path

from headrace.local_stack.valkey_server import ValkeyConfig, valkey_options


def test_valkey_listens_on_loopback_and_keeps_every_write() -> None:
    options = valkey_options(ValkeyConfig(Path("/data"), 6379))
    pairs = dict(zip(options[::2], options[1::2], strict=True))
    assert pairs["--bind"] == "127.0.0.1"
    assert pairs["--port"] == "6379"
    assert pairs["--appendonly"] == "yes"
    assert pairs["--dir"] == "/data/valkey"
