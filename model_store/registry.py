"""Registered class names to code. The only way from stored data to an import, and only settings can widen it."""

from collections.abc import Mapping

from model_store.import_paths import import_named
from model_store.inference_model import InferenceModel
from schemas.errors import ConfigurationError, ManifestError

SHIPPED: Mapping[str, str] = {
    "efficientnet-lite": "model_store.shipped.efficientnet_lite:EfficientNetLite",
    "exported": "model_store.shipped.exported_program:ExportedProgramModel",
}


def known_classes(classes: Mapping[str, str]) -> dict[str, str]:
    """Every registered name with its import path, `classes` (`model.classes`) winning over the shipped ones."""
    return {**SHIPPED, **classes}


def resolve_class(name: str, classes: Mapping[str, str]) -> type[InferenceModel]:
    """Import the model class that is registered as `name`, by :func:`known_classes`.

    Raises ManifestError for a name that is not registered, listing those that are, and ConfigurationError for a
    registered import path that does not lead to a subclass of InferenceModel.
    """
    known = known_classes(classes)
    if name not in known:
        raise ManifestError(f"model class {name!r} is not registered; known: {', '.join(sorted(known)) or 'none'}")
    path = known[name]
    found = import_named(path, f"model.classes.{name}")
    if not (isinstance(found, type) and issubclass(found, InferenceModel)):
        raise ConfigurationError(f"model.classes.{name}: {path} is not a subclass of InferenceModel")
    return found
