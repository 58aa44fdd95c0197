"""Finding the precision plan of a new version: each layer measured, a plan within a budget, judged on samples."""
