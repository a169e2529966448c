"""Model files behind one face: names to tensors in their stored format, a config, a tokenizer."""

from .adapters import Adapter, open_adapter
from .base import Checkpoint, StoredTensor
from .open import open_checkpoint
from .packages import ModelPackage, default_model, installed_models

__all__ = [
    "Adapter",
    "Checkpoint",
    "ModelPackage",
    "StoredTensor",
    "default_model",
    "installed_models",
    "open_adapter",
    "open_checkpoint",
]
