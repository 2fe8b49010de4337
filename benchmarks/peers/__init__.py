"""Ours beside PyTorch and JAX: the same models on the same data, trained in turns in one process."""
