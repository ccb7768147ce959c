"""Which programs are run, how, and by what their data are replaced."""

from __future__ import annotations

from typing import NamedTuple

EXAMPLES, MINGPT = "examples", "minGPT"


class Program(NamedTuple):
    """One run of a program.

    `source`: which of the two folders; `folder` and `script` in it; `options` as on a command line, chosen so
    that a run takes seconds. `replaced`: where its files speak of data, and what stands there instead (file,
    old text, new text). `limit`: after how many losses it ends, where it would go on for long.
    """

    source: str
    folder: str
    script: str
    options: str = ""
    replaced: tuple[tuple[str, str, str], ...] = ()
    limit: int = 1000


_GRAPH = (("main.py", "def load_cora(", "from synthetic import load_cora\n\n\ndef load_cora_of_files("),)
_LANGUAGE = "--emsize 24 --nhid 24 --epochs 2 --bptt 10 --batch_size 8 --dropout 0"

PROGRAMS: dict[str, Program] = {
    "mnist": Program(EXAMPLES, "mnist", "main.py", "--epochs 2 --lr 0.01"),
    "mnist_forward_forward": Program(
        EXAMPLES, "mnist_forward_forward", "main.py", "--epochs 4 --train_size 320 --test_size 320"
    ),
    "mnist_rnn": Program(EXAMPLES, "mnist_rnn", "main.py", "--epochs 2"),
    "vae": Program(EXAMPLES, "vae", "main.py", "--epochs 2 --batch-size 64"),
    "dcgan": Program(
        EXAMPLES,
        "dcgan",
        "main.py",
        "--dataset fake --imageSize 64 --ngf 8 --ndf 8 --niter 1 --lr 0.00001 --batchSize 32 --manualSeed 1 "
        "--workers 2",
    ),
    "super_resolution": Program(
        EXAMPLES,
        "super_resolution",
        "main.py",
        "--upscale_factor 2 --batchSize 4 --testBatchSize 4 --nEpochs 2 --threads 2",
        (
            (
                "data.py",
                "",
                "from synthetic import get_training_set, get_test_set\n",
            ),
        ),
    ),
    "time_sequence_prediction": Program(
        EXAMPLES,
        "time_sequence_prediction",
        "train.py",
        "--steps 2",
        (
            ("train.py", "torch.load('traindata.pt')", "__import__('synthetic').sine_waves()"),
            ("train.py", "future = 1000", "future = 20"),
        ),
        limit=24,
    ),
    "word_language_model (LSTM)": Program(
        EXAMPLES, "word_language_model", "main.py", f"--model LSTM {_LANGUAGE}"
    ),
    "word_language_model (GRU, tied)": Program(
        EXAMPLES, "word_language_model", "main.py", f"--model GRU --tied --lr 5 {_LANGUAGE}"
    ),
    "word_language_model (Transformer)": Program(
        EXAMPLES, "word_language_model", "main.py", f"--model Transformer --nhead 2 --lr 1 {_LANGUAGE}"
    ),
    "gcn": Program(EXAMPLES, "gcn", "main.py", "--epochs 20", _GRAPH),
    "gat": Program(EXAMPLES, "gat", "main.py", "--epochs 10 --hidden-dim 16 --num-heads 4", _GRAPH),
    "language_translation": Program(
        EXAMPLES,
        "language_translation",
        "main.py",
        "--epochs 2 --batch 16 --embed_size 32 --dim_feedforward 48 --enc_layers 2 --dec_layers 2 "
        "--attn_heads 4 --dropout 0 --logging_dir logs/",
        limit=12,
    ),
    "siamese_network": Program(
        EXAMPLES,
        "siamese_network",
        "main.py",
        "--epochs 1 --batch-size 16 --test-batch-size 40 --lr 0.0001",
        limit=6,
    ),
    "reinforcement_learning (reinforce)": Program(
        EXAMPLES, "reinforcement_learning", "reinforce.py", limit=20
    ),
    "reinforcement_learning (actor_critic)": Program(
        EXAMPLES, "reinforcement_learning", "actor_critic.py", limit=20
    ),
    "regression": Program(EXAMPLES, "regression", "main.py", limit=40),
    "fast_neural_style": Program(
        EXAMPLES,
        "fast_neural_style/neural_style",
        "neural_style.py",
        "train --epochs 1 --batch-size 4 --dataset x --style-image x.png --save-model-dir out",
        limit=4,
    ),
    "minGPT adder": Program(
        MINGPT,
        ".",
        "projects/adder/adder.py",
        "--trainer.max_iters=40 --model.model_type=gpt-nano --trainer.num_workers=0",
    ),
    "minGPT chargpt": Program(
        MINGPT,
        ".",
        "projects/chargpt/chargpt.py",
        "--trainer.max_iters=12 --model.model_type=gpt-nano --data.block_size=32 --trainer.batch_size=8 "
        "--trainer.num_workers=2",
    ),
}
# What is not run, and why.
NOT_RUN = {
    "imagenet": "`torch.distributed` and `torch.multiprocessing`",
    "mnist_hogwild": "`torch.multiprocessing`",
    "distributed, fx, cpp": "`torch.distributed`, `torch.fx`, C++",
    "legacy/snli": "needs torchtext's datasets, which are no longer made",
}
# So many of the examples, each with all of its runs, are to give PyTorch's losses to five digits.
NEEDED = 12
