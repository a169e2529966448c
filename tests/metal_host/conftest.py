"""The build of the executor, for the tests of this directory."""

from metal_host.host import metal_host

__all__ = ["metal_host"]
