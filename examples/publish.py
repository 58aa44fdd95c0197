"""Publish pictures: `python examples/publish.py cat.jpg dog.png`."""

import os
import sys
from pathlib import Path

from producers.kafka_publisher import Publisher
from schemas.configuration import load_settings

settings = load_settings(None, os.environ)
with Publisher(settings.kafka, settings.topics.requests[0]) as publisher:  # leaving it waits until all are written
    for name in sys.argv[1:]:
        request_id = publisher.publish_image_file(Path(name), key="my-camera")
        print(request_id, name)
