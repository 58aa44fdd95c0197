import json
from pathlib import Path

import pytest

from model_store.payloads import Payload
from model_store.shipped.demo_weights import PINNED, publish_demo
from model_store.store import ModelStore
from model_store.torch_loader import load_model
from schemas.records import PNG


def test_published_weights_know_a_cat_and_a_coffee(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("torchvision")
    data = Path(pytest.importorskip("skimage").__file__).parent / "data"
    store = ModelStore(tmp_path)

    assert [(version.version, is_new) for version, is_new in publish_demo(store)] == [(name, True) for name in PINNED]
    assert [is_new for _, is_new in publish_demo(store)] == [False] * 3

    resolved = store.verify("imagenet", "lite0")
    model = load_model(resolved.directory, resolved.manifest, {})
    answers = model.run([Payload(PNG, (data / name).read_bytes()) for name in ("chelsea.png", "coffee.png")])
    cat, coffee = (json.loads(answer) for answer in answers if isinstance(answer, bytes))
    assert [answer["label"] for answer in cat[:3]] == ["tiger cat", "Egyptian cat", "tabby"]
    assert coffee[0]["label"] == "espresso"
    assert coffee[0]["probability"] == pytest.approx(0.957, abs=0.005)
