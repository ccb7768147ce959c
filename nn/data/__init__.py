"""Data sets and batches: PyTorch's ``torch.utils.data``."""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import names_on_demand as _names_on_demand
from scopes._shared.on_demand import origins_of as _origins_of

# Type checkers read a stub, which .ci/write-stubs makes from this table.
_ON_DEMAND = _origins_of(
    {
        "nn.data.collate": "default_collate default_convert",
        "nn.data.dataset": "Dataset IterableDataset TensorDataset",
        "nn.data.loader": "DataLoader",
        "nn.data.parts": "ChainDataset ConcatDataset StackDataset Subset random_split",
        "nn.data.samplers": (
            "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler WeightedRandomSampler"
        ),
        "nn.data.worker": "WorkerInfo get_worker_info",
    }
)

__all__ = [*_ON_DEMAND]

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND, prepare=_clear_errors_of)
