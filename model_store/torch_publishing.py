"""Publishing what a training program holds in memory: a module, or a program from `torch.export`."""

from collections.abc import Mapping
from typing import Any

from model_store.inference_model import ModelContext
from model_store.publishing import Signer, VersionDraft, publish_state, publish_with
from model_store.registry import resolve_class
from model_store.torch_loader import check_state, save_state
from model_store.version_store import StoredVersion, VersionStore


def publish_module(
    store: VersionStore,
    draft: VersionDraft,
    module: Any,
    classes: Mapping[str, str],
    signer: Signer | None = None,
) -> StoredVersion:
    """Publish the weights of a `torch.nn.Module`, which must be those that the draft's class builds a module for.

    `classes` is `model.classes`. Raises ManifestError when a key, shape or dtype does not fit, before anything is
    written, and as :func:`~model_store.publishing.publish_file`.
    """
    state = module.state_dict()
    model_class = resolve_class(draft.model_class, classes)
    check_state(state, model_class(ModelContext(draft.labels, draft.options, "cpu", draft.name, draft.version)))
    return publish_state(store, draft, state, save_state, signer)


def publish_program(
    store: VersionStore, draft: VersionDraft, program: Any, signer: Signer | None = None
) -> StoredVersion:
    """Publish what `torch.export.export` returned, so that no code of its author is needed to serve it.

    The draft's class is `exported`, or a subclass that prepares inputs and words answers. Raises
    UnsupportedProgramError for what cannot be stored as data, and as :func:`~model_store.publishing.publish_file`.
    """
    from model_store.exported.graph import METADATA_KEY, encode_graph  # noqa: PLC0415 - only programs need it
    from model_store.exported.program_writer import convert_program  # noqa: PLC0415

    graph, weights = convert_program(program)
    metadata = {METADATA_KEY: encode_graph(graph)}
    return publish_with(store, draft, lambda path: save_state(weights, path, metadata), signer)
