"""Follow what comes out, results and dead letters: `python examples/consume.py`, Ctrl-C ends it."""

import os

from producers.result_reader import ResultReader
from schemas.configuration import load_settings
from schemas.records import DeadLetter

settings = load_settings(None, os.environ)
topics = settings.topics
with ResultReader(settings.kafka, topics.results, topics.dead_letters, start="earliest") as reader:
    for outcome in reader:
        if isinstance(outcome, DeadLetter):
            print(outcome.request_id, "refused:", outcome.error.code, outcome.error.message)
        else:
            print(outcome.request_id, outcome.version, bytes(outcome.output or b"expired").decode())
