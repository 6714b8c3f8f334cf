"""Pure deciders: no clock, no chance, no threads, no logging. What they need comes in as arguments."""
