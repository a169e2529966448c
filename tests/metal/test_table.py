"""The kernel table and the kernels of metal/ are the same."""

from metal_host.host import MetalHost


def test_every_kernel_of_the_table_exists_and_none_besides(metal_host: MetalHost) -> None:
    assert metal_host.kernels() == set(metal_host.table())
