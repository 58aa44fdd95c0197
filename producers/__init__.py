"""Everything that writes requests or reads outcomes; usable without torch."""
