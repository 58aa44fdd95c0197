"""What `headrace profile` shows: tables and a plot in the terminal, and a picture."""
