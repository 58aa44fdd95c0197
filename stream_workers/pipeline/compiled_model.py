"""`model.compile`: the module compiled for every size bucket before its version counts as loaded."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import _dynamo as dynamo  # where torch keeps the settings of its compiler

from model_store.loaded_model import LoadedModel
from model_store.outcomes import ModelStageError
from schemas.errors import ConfigurationError

SPARE_RECOMPILES = 8
"""Beyond one per bucket: a module may be entered in more than one way."""


def compile_warm(model: LoadedModel, sizes: Sequence[int], device: str, cache_dir: Path) -> int:
    """Compile the model's module for batches of its example in these sizes; returns how many records ran for that.

    From then on nothing is compiled any more: an input of any other shape runs as it is written, since a compilation
    takes longer than a batch may. Raises ConfigurationError when the model has no example or cannot be compiled.
    """
    if model.model.example() is None:
        raise ConfigurationError(
            "model.compile needs an example() of the model class, to know the shapes to compile for"
        )
    (cache_dir / "compiled").mkdir(mode=0o700, parents=True, exist_ok=True)  # code is loaded from here
    dynamo.config.recompile_limit = max(dynamo.config.recompile_limit, len(sizes) + SPARE_RECOMPILES)
    # On CUDA this mode captures a graph per size, so a batch is one launch.
    mode = "reduce-overhead" if device.startswith("cuda") else "default"
    torch.compiler.set_stance("default")
    model.module = torch.compile(model.module, dynamic=False, mode=mode)
    try:
        ran = model.warm_up(max(sizes), sizes)
    except ModelStageError as error:
        raise ConfigurationError(
            f"model.compile: this version cannot be compiled, serve it without: {error.cause_class}: {error}"
        ) from error
    torch.compiler.set_stance("eager_on_recompile")
    return ran
