"""Serves TFLite models by LiteRT, which computes them as TensorFlow Lite does."""
