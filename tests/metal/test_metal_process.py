"""The process that plans for Metal run in takes its own ferrule, however another is installed."""

import ctypes.util
import subprocess
import sys
from pathlib import Path

# An editable install puts a finder for its modules before the path.
PROGRAM = """
import sys

class Editable:
    def find_spec(self, name, path=None, target=None):
        assert not name.startswith("ferrule"), "the installed ferrule"

from metal.metal_process import _begin
sys.meta_path.insert(0, Editable())
_begin(*sys.argv[1:])
import ferrule
print(ferrule.__file__)
"""


def test_an_editable_install_does_not_come_before_its_ferrule(tmp_path: Path) -> None:
    package = tmp_path / "ferrule"
    package.mkdir()
    (package / "__init__.py").touch()
    framework = ctypes.util.find_library("c")
    assert framework is not None
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), framework],
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"{package / '__init__.py'}\n"
