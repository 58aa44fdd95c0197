"""From an order to a model that is ready to answer: found, verified, loaded and warm. Runs in a model process only."""

from pathlib import Path
from typing import Literal, cast

from model_store.batch_inputs import BatchPlan
from model_store.golden_check import check_golden
from model_store.loaded_model import LoadedModel
from model_store.local_cache import CachedFile, LocalCache
from model_store.signatures import SignaturePolicy
from model_store.store_opening import open_location
from schemas.manifest import ModelManifest
from schemas.settings import LimitSettings
from stream_workers.links.messages import LoadOrder
from stream_workers.pipeline.answer_identity import answer_identity


class WarmModel:
    """A loaded version with the cached file that it is mapped from, which stays in the cache as long as this lives."""

    def __init__(
        self, model: LoadedModel, weights: CachedFile, warmed: int, answer_identity: bytes, precision: str
    ) -> None:
        self.model = model
        self.precision = precision
        self.warmed = warmed
        self.answer_identity = answer_identity
        self._weights = weights


def load_warm(order: LoadOrder) -> WarmModel:
    """Load what the order names. Raises what the store, the loader and the model class raise.

    Who signed the version is checked before any of its files is opened, and a file's SHA-256 before it is loaded.
    """
    store = open_location(order.store_root, SignaturePolicy(order.require_signature, order.trusted_keys))
    stored = store.resolve(order.version.model, order.version.version)
    weights = LocalCache(Path(order.cache_dir), order.cache_bytes).fetch_weights(stored)
    try:
        return _load(order, stored.manifest, weights)
    except BaseException:
        weights.close()
        raise


def _load(order: LoadOrder, manifest: ModelManifest, weights: CachedFile) -> WarmModel:
    from model_store.torch_loader import load_model  # noqa: PLC0415 - seconds, and a missing version fails before it

    non_finite = cast("Literal['reject', 'allow']", order.non_finite)
    model = load_model(weights.path, manifest, order.classes, order.device, order.threads, non_finite)
    identity = answer_identity(order, manifest, type(model.model))
    model.use_plan(BatchPlan(order.max_batch_size, tuple(order.size_buckets), order.decode_threads))
    warmed = _warm_up(model, order)
    if manifest.golden is not None:
        # Last, so that what is checked is what will serve: compiled, in its precision, on its device.
        check_golden(model, manifest.golden, decode_limits(order))
    return WarmModel(model, weights, warmed, identity, manifest.precision)


def _warm_up(model: LoadedModel, order: LoadOrder) -> int:
    """Run the model's example at the sizes to come; returns how many records ran."""
    sizes = tuple(order.size_buckets)
    if not order.compile:
        return model.warm_up(order.max_batch_size, sizes)
    from stream_workers.pipeline.compiled_model import compile_warm  # noqa: PLC0415 - seconds

    # Once as it is written, so that what fails after this is the compiler's fault.
    warmed = model.warm_up(1)
    return warmed + compile_warm(model, sizes or (order.max_batch_size,), order.device, Path(order.cache_dir))


def decode_limits(order: LoadOrder) -> LimitSettings:
    """Return the limits that the order carries."""
    return LimitSettings.model_validate_json(order.limits)
