"""The kernel table and the kernels of metal/ are the same."""

from ferrule.formats import FORMATS
from metal_host.host import MetalHost


def test_every_kernel_of_the_table_exists_and_none_besides(metal_host: MetalHost) -> None:
    assert metal_host.kernels() == set(metal_host.table())


def test_formats(metal_host: MetalHost) -> None:
    names = {name.removeprefix("matmul_").upper() for name in metal_host.kernels() if name.startswith("matmul_")}
    assert names == set(FORMATS)
