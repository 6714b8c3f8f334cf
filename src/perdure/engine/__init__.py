"""What acts: the fused wrapper for the success path, and the drivers for everything after it."""
