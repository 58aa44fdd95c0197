"""The benchmark suite: `python -m benchmarks`. Start reading at `__main__`, then `scenarios/`."""
