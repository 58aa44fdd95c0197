"""The front door: the `headrace` command and the embedded local stack."""
