"""Pure deciders between the partition queues and the model: batches, the offset ledger, the failure policy."""
