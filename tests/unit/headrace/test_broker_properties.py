from pathlib import Path
from typing import Any

import pytest

from headrace.local_stack.broker_properties import (
    BrokerConfig,
    render_log_config,
    render_properties,
    server_properties,
)
from schemas.errors import ConfigurationError


def build_config(**varied: Any) -> BrokerConfig:
    return BrokerConfig(**{"data_dir": Path("/data"), "port": 9092, "controller_port": 9093, **varied})


def test_every_address_is_on_loopback() -> None:
    properties = server_properties(build_config(listener_ports={"PROXY": 9094}))
    for key in ("listeners", "advertised.listeners"):
        assert {address.split("://")[1].split(":")[0] for address in properties[key].split(",")} == {"127.0.0.1"}
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"


def test_an_additional_listener_binds_one_port_and_advertises_another() -> None:
    properties = server_properties(build_config(listener_ports={"PROXY": 9094}, advertised_ports={"PROXY": 39092}))
    assert "PROXY://127.0.0.1:9094" in properties["listeners"]
    assert "PROXY://127.0.0.1:39092" in properties["advertised.listeners"]
    assert "PROXY:PLAINTEXT" in properties["listener.security.protocol.map"]


def test_internal_topics_need_one_broker_only() -> None:
    properties = server_properties(build_config())
    replicated = {key: value for key, value in properties.items() if key.endswith(("replication.factor", ".min.isr"))}
    assert len(replicated) == 6
    assert set(replicated.values()) == {"1"}


def test_an_option_wins_over_a_default() -> None:
    assert server_properties(build_config(options={"num.io.threads": "1"}))["num.io.threads"] == "1"


def test_an_option_cannot_take_the_broker_off_this_machine() -> None:
    with pytest.raises(ConfigurationError, match="listeners"):
        server_properties(build_config(options={"listeners": "PLAINTEXT://0.0.0.0:9092"}))


def test_a_comma_in_the_path_is_refused_since_kafka_would_split_it() -> None:
    with pytest.raises(ConfigurationError, match="comma"):
        server_properties(build_config(data_dir=Path("/a,b")))


def test_properties_are_escaped_as_java_reads_them() -> None:
    assert render_properties({"log.dirs": "/home/Zoë/\\x"}) == "log.dirs=/home/Zo\\u00eb/\\\\x\n"


def test_the_log_goes_to_a_file_of_bounded_size() -> None:
    text = render_log_config(build_config())
    assert 'fileName: "/data/logs/kafka.log"' in text
    assert "SizeBasedTriggeringPolicy" in text
