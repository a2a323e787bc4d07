"""Models that others published, served by the README's means, judged by their own runtimes."""
