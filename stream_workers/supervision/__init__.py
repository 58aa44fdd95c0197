"""The parent of a worker: slots, group members, model processes, and the health endpoint."""
