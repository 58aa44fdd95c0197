"""Texts of very different length through all-MiniLM-L6-v2."""

import ast
import json
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import torch

from benchmarks.workloads.minilm import MiniLm, read_state, tokenize
from benchmarks.workloads.task import ModelTask

_DISTINCT = 400
_CHARACTERS = range(20, 900)
_MODULES = ("argparse", "ast", "collections/__init__", "datetime", "doctest", "email/message", "inspect", "pathlib")
_MORE_MODULES = ("random", "socket", "statistics", "string", "subprocess", "tarfile", "threading", "zipfile", "typing")


class TextTask(ModelTask):
    """Paragraphs of the standard library's docstrings: 5 to 200 tokens, most of them short; answers embeddings."""

    def payloads(self) -> Sequence[bytes]:
        """See :class:`ModelTask`."""
        found = dict.fromkeys(text for name in (*_MODULES, *_MORE_MODULES) for text in _paragraphs(name))
        return [text.encode() for text in list(found)[:_DISTINCT]]

    def build(self) -> torch.nn.Module:
        """See :class:`ModelTask`."""
        return MiniLm()

    def state(self) -> dict[str, torch.Tensor]:
        """See :class:`ModelTask`."""
        return read_state()

    def decode(self, payloads: Sequence[bytes], *, is_tuned: bool) -> torch.Tensor:  # noqa: ARG002 - there is one way
        """Token ids int64 [n, longest]."""
        return torch.from_numpy(tokenize([payload.decode() for payload in payloads]))

    def encode(self, outputs: torch.Tensor, *, is_tuned: bool) -> list[bytes]:
        """384 numbers, rounded to six places."""
        rows = outputs.double().numpy().round(6).tolist()
        return [msgspec.json.encode(row) if is_tuned else json.dumps(row).encode() for row in rows]


def _paragraphs(module: str) -> Iterator[str]:
    source = (Path(sysconfig.get_paths()["stdlib"]) / f"{module}.py").read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds):
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                text = " ".join(paragraph.split())
                if len(text) in _CHARACTERS:
                    yield text
