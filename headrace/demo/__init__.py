"""`headrace demo`: camera streams through a local stack, with a kill, a ledger and a contact sheet."""
