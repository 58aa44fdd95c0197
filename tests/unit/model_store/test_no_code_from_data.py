"""No module of ours can turn stored bytes into code: checked on the text of every one of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("headrace", "model_store", "producers", "schemas", "stream_workers", "examples")
FORBIDDEN_MODULES = {
    "pickle", "_pickle", "cPickle", "pickletools", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle",
    "code",
}  # fmt: skip
FORBIDDEN_CALLS = {
    "torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter", "torch.export.load",
    "np.load", "numpy.load", "np.fromfile", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen",
    "eval", "exec", "compile", "__import__",
}  # fmt: skip
TORCH_DOORS = (
    "model_store/exported/program_module.py",
    "model_store/exported/program_writer.py",
    "model_store/int8_weight.py",
    "model_store/precision/torch_laboratory.py",
    "model_store/precision_torch.py",
    "model_store/torch_loader.py",
)
REDIS_DOORS = ("model_store/redis_connection.py",)


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not _says_no_pickle(node):
            yield ast.unparse(node.func)


def _says_no_pickle(call: ast.Call) -> bool:
    return any(word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in call.keywords)


def test_nothing_that_unpickles_is_imported() -> None:
    found = [(path, name) for path, tree in modules(*PACKAGES) for name in imports(tree)]

    assert len(found) > 100
    assert [item for item in found if item[1].split(".")[0] in FORBIDDEN_MODULES or item[1] in FORBIDDEN_CALLS] == []


def test_nothing_that_runs_stored_text_is_called() -> None:
    assert [(path, name) for path, tree in modules(*PACKAGES) for name in calls(tree) if name in FORBIDDEN_CALLS] == []


def test_no_shell_is_ever_asked_for() -> None:
    shells = [
        path
        for path, tree in modules(*PACKAGES)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "shell"
    ]
    assert shells == []


@pytest.mark.parametrize(("library", "doors"), [("torch", TORCH_DOORS), ("redis", REDIS_DOORS)])
def test_each_library_comes_through_its_doors_only(library: str, doors: tuple[str, ...]) -> None:
    importers = {path for path, tree in modules("model_store") if library in {n.split(".")[0] for n in imports(tree)}}

    assert importers == set(doors)
