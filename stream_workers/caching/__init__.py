"""The pure parts of the result cache."""
