"""Arithmetic on arrays, compiled. Knows nothing of messages or nodes."""

from . import cache

CACHE_FOLDER = cache.configure()
