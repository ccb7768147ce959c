"""``torch.nn.modules.sparse``."""

from nn import Embedding, EmbeddingBag

__all__ = ["Embedding", "EmbeddingBag"]
