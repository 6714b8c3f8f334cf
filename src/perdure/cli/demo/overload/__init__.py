"""The second scene of the demo: a server near its capacity that becomes slow for a while."""
