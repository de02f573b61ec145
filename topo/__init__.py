"""Topologies of AI clusters: specs, hardware, compiled fabrics, the room they stand in, and pictures of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
