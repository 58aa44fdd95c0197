"""Model processes and the transport between them and the group member."""
