"""ferrule runs language models on any CPU and on Apple GPUs, from GGUF files and Hugging Face checkpoints."""

from .errors import FerruleError
from .model import Model, load

__all__ = ["FerruleError", "Model", "load"]
