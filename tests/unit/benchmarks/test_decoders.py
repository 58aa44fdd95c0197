"""The decoders that are compared decode the same picture."""

import io

import numpy as np
import pytest
from PIL import Image

from benchmarks.decoders import HINT, Decoder, list_decoders

HEIGHT, WIDTH = 3 * HINT, 4 * HINT


@pytest.mark.parametrize("decoder", list_decoders(), ids=lambda decoder: decoder.name)
def test_each_gives_the_picture_and_no_less_than_was_asked_for(decoder: Decoder) -> None:
    file = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (200, 100, 50)).save(file, "JPEG")

    picture = decoder.decode(file.getvalue())

    height, width, channels = picture.shape
    assert channels == 3
    assert (height < HEIGHT) == decoder.is_scaled
    assert min(height, width) >= HINT
    assert np.abs(picture.reshape(-1, 3).mean(axis=0) - (200, 100, 50)).max() < 4
