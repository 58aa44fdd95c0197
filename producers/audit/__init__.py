"""The proof of delivery: every request answered exactly once, in order, seen alike by every reader."""
