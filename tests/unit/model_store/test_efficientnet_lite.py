import numpy as np
import pytest

from model_store.inference_model import ModelContext
from model_store.payloads import Payload
from model_store.shipped.efficientnet_lite import SIDES, EfficientNetLite
from schemas.errors import ManifestError
from schemas.records import PNG


@pytest.mark.parametrize(("variant", "side"), SIDES.items())
def test_each_variant_has_its_side(variant: str, side: int) -> None:
    model = EfficientNetLite(ModelContext(options={"variant": variant}))

    item = model.preprocess(model.example())

    assert (item.shape, item.dtype) == ((3, side, side), np.uint8)


def test_the_network_sees_grey_as_about_zero() -> None:
    torch = pytest.importorskip("torch")
    model = EfficientNetLite(ModelContext(options={"variant": "lite0"}))
    inputs = torch.from_numpy(model.collate([model.preprocess(model.example())] * 2))

    seen = model.forward(lambda x: x, inputs)

    assert (tuple(seen.shape), seen.dtype) == ((2, 3, 224, 224), torch.float32)
    assert seen.abs().max() < 0.01


@pytest.mark.parametrize("variant", [None, "lite9", 0])
def test_a_manifest_without_a_known_variant_is_refused(variant: object) -> None:
    with pytest.raises(ManifestError, match="variant"):
        EfficientNetLite(ModelContext(options={"variant": variant})).preprocess(Payload(PNG, b""))


def test_the_five_likeliest_come_first() -> None:
    torch = pytest.importorskip("torch")
    model = EfficientNetLite(ModelContext(labels=("a", "b"), options={"variant": "lite0"}))

    ((first, second, *rest),) = model.postprocess(torch.tensor([[1.0, 3.0, 0.0, 0.0, 0.0, -1.0]]), 1)

    assert (first["label"], first["index"], second["label"]) == ("b", 1, "a")
    assert first["probability"] > second["probability"]
    assert [answer["label"] for answer in rest] == ["2", "3", "4"]
