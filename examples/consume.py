"""Follow what comes out, results and dead letters: `python examples/consume.py`, Ctrl-C ends it."""

import contextlib
import os

from producers.result_reader import ResultReader
from schemas.configuration import load_settings
from schemas.records import DeadLetter

settings = load_settings(None, os.environ)
topics = settings.topics
reading = ResultReader(settings.kafka, topics.results, topics.dead_letters, start="earliest")
with contextlib.suppress(KeyboardInterrupt), reading as reader:
    for outcome in reader:
        if isinstance(outcome, DeadLetter):
            print(outcome.request_id, "refused:", outcome.error.code, outcome.error.message)
        else:
            print(outcome.request_id, outcome.version, outcome.status, outcome.answer)
