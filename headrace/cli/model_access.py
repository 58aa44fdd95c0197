"""What several `headrace models` commands need: the store, the doors to Redis, and a check before anything begins."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from model_store.live_shadows import LiveShadows
    from model_store.live_versions import LiveVersions
    from model_store.live_workers import LiveWorkers
    from model_store.version_store import VersionStore
    from schemas.settings import Settings


def open_store(settings: "Settings") -> "VersionStore":
    """Open the model store of these settings. Raises ConfigurationError."""
    from model_store.store_opening import open_store as open_it  # noqa: PLC0415 - keeps --help instant

    return open_it(settings.store)


def check_registered(model_class: str, settings: "Settings") -> None:
    """Raise ConfigurationError when the settings do not know the class."""
    from model_store.registry import known_classes  # noqa: PLC0415 - keeps --help instant

    known = known_classes(settings.model.classes)
    if model_class not in known:
        raise ConfigurationError(
            f"class {model_class} is not registered in model.classes; there are {', '.join(sorted(known))}"
        )


def verify_versions(settings: "Settings", name: str, split: Mapping[str, int]) -> None:
    """Read every byte of the versions and check their classes. Raises ModelStoreError and ConfigurationError."""
    store = open_store(settings)
    for version in split:
        check_registered(store.verify(name, version).manifest.model_class, settings)


@contextmanager
def open_shadows(settings: "Settings") -> Iterator["LiveShadows"]:
    """The door to Redis for shadows, closed at the end. Nothing is connected before the first use."""
    from model_store.live_shadows import LiveShadows  # noqa: PLC0415 - keeps --help instant

    shadows = LiveShadows(settings.redis)
    try:
        yield shadows
    finally:
        shadows.close()


@contextmanager
def open_control_plane(settings: "Settings") -> Iterator[tuple["LiveVersions", "LiveWorkers"]]:
    """The two doors to Redis, closed at the end. Nothing is connected before the first use."""
    from model_store.live_versions import LiveVersions  # noqa: PLC0415 - keeps --help instant
    from model_store.live_workers import LiveWorkers  # noqa: PLC0415

    versions, workers = LiveVersions(settings.redis), LiveWorkers(settings.redis)
    try:
        yield versions, workers
    finally:
        versions.close()
        workers.close()
