"""The running worker: partitions to batches to a model to outcomes, settled exactly once."""
