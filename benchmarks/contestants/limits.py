"""The limits of the cores: the model alone, or decode, model and encode, without Kafka. Prints records per second.

Arguments: `model` or `decode`, and for how many seconds.
"""

import json
import sys
import time

from benchmarks.contestants.assignment import read_assignment


def main() -> None:
    """Measure one process of one thread."""
    kind, seconds = sys.argv[1], float(sys.argv[2])
    task = read_assignment()
    model = task.load_model()
    payloads = model.payloads
    batches = [payloads[start : start + task.batch_size] for start in range(0, len(payloads), task.batch_size)]
    # Only full batches: a short last one would make the model look slower than it is.
    batches = [batch for batch in batches if len(batch) == task.batch_size]
    prepared = [model.decode(batch) for batch in batches] if kind == "model" else []
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        position = count // task.batch_size % len(batches)
        if prepared:
            model.forward(prepared[position])
        else:
            model.answer(batches[position])
        count += task.batch_size
    # In one piece: the processes of a limit share a log, and `print` would write the end of the line by itself.
    sys.stdout.write(json.dumps({"records_per_second": count / (time.perf_counter() - started)}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
