"""The tiny models: one entry per variant, saying only what makes it special.

Config keys are those of the transformers config class of the model type.
"""

from . import gemma, gpt, latent_attention, llama, others, phi, qwen, state_space  # noqa: F401 (each registers its variants)
from .registry import VARIANTS, Variant

__all__ = ["VARIANTS", "Variant"]
