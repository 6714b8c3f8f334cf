"""Files that processes share: what every SQLite file of perdure has in common."""
