import pytest

from examples.mlp import MlpClassifier
from model_store.registry import SHIPPED, resolve_class
from model_store.shipped.efficientnet_lite import EfficientNetLite
from schemas.errors import ConfigurationError, ManifestError


def test_settings_and_shipped_classes_are_found() -> None:
    assert resolve_class("mlp", {"mlp": "examples.mlp:MlpClassifier"}) is MlpClassifier
    assert resolve_class("efficientnet-lite", {}) is EfficientNetLite


def test_an_unknown_class_lists_the_known_ones() -> None:
    with pytest.raises(ManifestError, match=r"'os.system'.*efficientnet-lite, exported, mlp"):
        resolve_class("os.system", {"mlp": "examples.mlp:MlpClassifier"})


def test_a_stored_import_path_is_just_an_unknown_name() -> None:
    with pytest.raises(ManifestError, match="not registered"):
        resolve_class("examples.mlp:MlpClassifier", {})


@pytest.mark.parametrize(
    "path",
    ["no_such_module_anywhere:X", "examples.mlp:Missing", "json:dumps", "pathlib:Path", "examples.mlp:build_mlp"],
)
def test_a_registered_path_that_is_no_model_class_is_a_configuration_error(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.classes\.x"):
        resolve_class("x", {"x": path})


def test_shipped_names_are_few() -> None:
    assert set(SHIPPED) == {"efficientnet-lite", "exported"}
