"""What the tests against real servers share."""

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient

from headrace.local_stack.stack import LocalStack


@pytest.fixture
def admin(stack: LocalStack) -> Iterator[KafkaAdminClient]:
    """An admin client of the session's broker."""
    client = KafkaAdminClient(bootstrap_servers=stack.bootstrap)
    yield client
    client.close()
