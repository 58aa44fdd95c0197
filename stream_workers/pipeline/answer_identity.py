"""What makes an answer, as one digest: two model processes with equal identities give equal answers to equal payloads.

Everything that a load order says counts, unless it is listed here as making no difference: what is added to the order
later counts by itself. Not known here is code that a model class imports from its own other modules.
"""

import hashlib
import sys
from importlib import metadata
from pathlib import Path

import msgspec

from model_store.inference_model import InferenceModel
from schemas.manifest import ModelManifest
from stream_workers.links.messages import LoadOrder

FORMAT = 1
MAKES_NO_DIFFERENCE = frozenset(
    {
        "version",
        "store_root",
        "cache_dir",
        "cache_bytes",
        "classes",
        "max_batch_size",
        "slots",
        "slot_bytes",
        "decode_threads",
        "require_signature",
        "trusted_keys",
    }
)
"""Fields of the order. Version and class are in the manifest, and the class's code is counted itself."""
PACKAGES = ("headrace", "torch", "numpy", "pillow", "simplejpeg")


def answer_identity(order: LoadOrder, manifest: ModelManifest, model_class: type[InferenceModel]) -> bytes:
    """Return the SHA-256 over manifest, order, the code of the class and its bases, and the packages underneath.

    Empty when the class does not declare `cacheable`.
    """
    if not model_class.cacheable:
        return b""
    told = msgspec.structs.asdict(order)
    facts = {
        "format": FORMAT,
        "manifest": manifest.model_dump(mode="json"),
        "order": {name: told[name] for name in told if name not in MAKES_NO_DIFFERENCE},
        "code": [_describe_code(part) for part in model_class.__mro__ if part is not object],
        "packages": {name: _version_of(name) for name in PACKAGES},
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).digest()


def _describe_code(part: type) -> tuple[str, str, str]:
    """Return the class's module, name and SHA-256 of the module's file, empty when it has none to read."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    try:
        code = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        code = ""
    return part.__module__, part.__qualname__, code


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
