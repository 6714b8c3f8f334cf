"""One run of one command: its process group, its streams, its terminal, and the signals meant for it."""
