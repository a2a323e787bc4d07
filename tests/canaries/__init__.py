"""What OpenVINO gets wrong, and whether it still does."""
