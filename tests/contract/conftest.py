"""What the tests of every Redis door share."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from headrace.local_stack.stack import LocalStack
from schemas.settings import RedisSettings


@pytest.fixture
def settings(stack: LocalStack, unique: str) -> RedisSettings:
    return RedisSettings(url=SecretStr(stack.redis_url), prefix=unique[-40:].strip("-"))


@pytest.fixture
def client(settings: RedisSettings) -> Iterator[Any]:
    with redis.Redis.from_url(settings.url.get_secret_value()) as connected:
        yield connected
