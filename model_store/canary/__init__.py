"""Taking a version up by stages, halted and rolled back on what its own results show."""
