"""What the fault tests share: one broker that clients reach directly or through the proxy."""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headrace.local_stack.stack import LocalStack
from producers.topic_layout import TopicPlan
from producers.topics import TopicAdmin
from schemas.errors import PipelineError
from schemas.settings import KafkaSettings
from tests.faults.kafka_proxy import KafkaProxy

PROXY_LISTENER = "PROXY"


@dataclass(frozen=True)
class Rig:
    """One local stack and the proxy in front of its second listener."""

    stack: LocalStack
    proxy: KafkaProxy

    @property
    def direct(self) -> KafkaSettings:
        """Past the proxy: for what must not be disturbed."""
        return KafkaSettings(bootstrap=self.stack.bootstrap)

    @property
    def proxied(self) -> KafkaSettings:
        """Through the proxy, for ever: the broker advertises the proxy's port to whoever came that way."""
        return KafkaSettings(bootstrap=f"127.0.0.1:{self.proxy.port}")

    def create_topics(self, *names: str, partitions: int = 1) -> None:
        """Create topics; they are ready when this returns."""
        with TopicAdmin(self.direct) as admin:
            admin.create([TopicPlan(name, partitions, 1, {}) for name in names])


@pytest.fixture(scope="session")
def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """The broker and the proxy of the whole run."""
    with KafkaProxy() as proxy:
        stack = LocalStack(tmp_path_factory.mktemp("faults"), extra_advertised={PROXY_LISTENER: proxy.port})
        try:
            stack.start()
        except PipelineError as error:
            if os.environ.get("CI") == "true":
                pytest.fail(f"no local stack: {error}")
            pytest.skip(f"no local stack: {error}")
        proxy.broker = ("127.0.0.1", stack.listener_port(PROXY_LISTENER))
        yield Rig(stack, proxy)
        stack.stop()


@pytest.fixture
def rig(shared_rig: Rig) -> Iterator[Rig]:
    """The shared rig, with no fault armed before or after the test."""
    shared_rig.proxy.clear()
    yield shared_rig
    shared_rig.proxy.clear()


@pytest.fixture
def unique() -> str:
    """A prefix for topics, groups and transactional ids that no other test has used."""
    return f"faults-{uuid.uuid4().hex[:10]}"
